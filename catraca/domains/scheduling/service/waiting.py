"""Lines for times that are taken: what becomes free is offered to whoever has waited for it the longest.

An offer is a hold for that client: nobody else can take it, and it ends by itself. Whoever gives it back
goes to the end of the line and is not offered that time again; whoever lets it lapse leaves the line. Each
offer is a transaction of its own, which holds the agendas first and then one client's places in line: so
nobody waits in a circle, and two who make offers at once never make two of one time, or two to one client.
"""

from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.errors import ServiceRetired, TooManyWaits
from catraca.domains.scheduling.model.agendas import Client, ServiceId, SubjectId
from catraca.domains.scheduling.model.diary import Slot
from catraca.domains.scheduling.model.spans import Seconds, Span
from catraca.domains.scheduling.model.waiting import Entry, EntryId, Freed, Match
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.service import booking, freeing, holding, looking, telling
from catraca.domains.scheduling.service.booking import Wish
from catraca.domains.scheduling.service.setting_up import get_service, get_worker
from catraca.domains.scheduling.store import agendas as agenda_store
from catraca.domains.scheduling.store import appointments as appointment_store
from catraca.domains.scheduling.store import diaries
from catraca.domains.scheduling.store import freeing as freeing_store
from catraca.domains.scheduling.store import waiting as store
from catraca.events import SlotOffered
from catraca.platform.clock import now
from catraca.platform.database import Db, timers
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

MOST_WAITS = 20
# So much of what became free is looked at in one transaction.
AT_ONCE: Seconds = looking.DAY
LOOK_AGAIN = timedelta(seconds=1)
LOOK_EVERY = timedelta(hours=1)


async def join_line(
    db: Db,
    service_id: ServiceId,
    client_id: UserId,
    *,
    worker_id: SubjectId | None,
    starts_from: datetime,
    starts_before: datetime,
) -> Entry:
    """Wait for a time that begins in there. If one is free by now, it is offered at once."""
    looking.check_range((moment_of(starts_from), moment_of(starts_before)))
    service = await get_service(db, service_id)
    if service.terms.retired:
        raise ServiceRetired
    if worker_id is not None:
        await get_worker(db, worker_id)
    entry_id = EntryId(new_id())
    joined = await store.insert_entry(
        db,
        entry_id,
        service_id=service_id,
        worker_id=worker_id,
        client_id=client_id,
        starts_from=starts_from,
        starts_before=starts_before,
        most=MOST_WAITS,
    )
    if not joined:
        raise TooManyWaits(limit=MOST_WAITS)
    await timers.set_timer(db, freeing.WAIT_DUE, entry_id, due_in=freeing.AT_ONCE)
    return await get_entry(db, entry_id)


async def get_entry(db: Db, entry_id: UUID) -> Entry:
    entry = await store.read_entry(db, entry_id)
    if entry is None:
        raise NotFound
    return entry


async def leave_line(db: Db, entry_id: EntryId) -> None:
    """Wait no longer; what is offered is given back, what was booked stays booked. Safe to repeat."""
    entry = await get_entry(db, entry_id)
    if entry.offer is not None and entry.status == "OFFERED":
        await holding.give_back(db, entry.offer.hold_id)
    await store.leave_line(db, [entry_id])


async def look_for(db: Db, entry_id: UUID) -> None:
    """What a place's timer does: see what is free for it, or end it when its time is over. Safe to repeat.

    What is found goes to the first in line, as what is freed does: if that is another, there may be more.
    """
    entry = await store.read_entry(db, entry_id)
    if entry is None or entry.status != "WAITING" or await store.expire_entry(db, entry.id):
        return
    # Whoever just frees something and has not seen this place is waited for.
    await agenda_store.hold_for_service(db, entry.service_id, entry.worker_id)
    slot = None if await store.has_offer(db, entry.client_id) else await _first_free(db, entry)
    if slot is not None:
        await freeing.slot_found(db, entry.service_id, slot)
        await timers.set_timer(db, freeing.WAIT_DUE, entry.id, due_in=LOOK_AGAIN)
    elif entry.starts_before - now() > LOOK_EVERY:
        # Days come into the horizon, and services change, without anybody saying so.
        await timers.set_timer(db, freeing.WAIT_DUE, entry.id, due_in=LOOK_EVERY)
    else:
        await timers.set_timer(db, freeing.WAIT_DUE, entry.id, due_at=entry.starts_before)


async def offer_freed(db: Db, freed_id: UUID, *, lasts: timedelta) -> None:
    """What the timer of freed time does: one offer, or a look at the next stretch of it. Safe to repeat."""
    freed = await freeing_store.read_freed(db, freed_id)
    if freed is None:
        return
    awaited = await freeing_store.services_awaited(db, freed)
    subjects = [
        await agenda_store.subjects_of_service(db, service_id, freed.worker_id) for service_id in awaited
    ]
    await agenda_store.hold_subjects(db, {no for nos in subjects for no in nos})
    until = min(freed.span[1], freed.span[0] + AT_ONCE) if awaited else freed.span[1]
    matches = [await _first_in_line(db, service_id, freed, until) for service_id in awaited]
    first = min((one for one in matches if one), key=lambda one: (one.queued_at, one.entry_id), default=None)
    if first is not None:
        # There may be more who want more of it; and whoever left in this moment is looked past next time.
        await _offer(db, first, lasts=lasts)
    if first is not None or await freeing_store.leave_until(db, freed.id, until):
        await timers.set_timer(db, freeing.TIME_FREED, freed.id, due_in=freeing.AT_ONCE)


async def _first_free(db: Db, entry: Entry) -> Slot | None:
    """The first in its range that it was not offered before."""
    before = await store.offered_before(db, entry.id)
    page = await looking.find_slots(
        db,
        entry.service_id,
        worker_id=entry.worker_id,
        within=(moment_of(entry.starts_from), moment_of(entry.starts_before)),
        after=None,
        limit=len(before) + 1,
    )
    return next((slot for slot in page.slots if (slot.starts, slot.worker_id) not in before), None)


async def _first_in_line(db: Db, service_id: ServiceId, freed: Freed, until: Seconds) -> Match | None:
    offering = await diaries.read_offering(db, service_id, freed.worker_id)
    assert offering is not None, "services stay"
    terms = offering.service.terms
    # What takes time from there begins in there.
    within: Span = (
        freed.span[0] - (terms.duration_minutes + terms.buffer_after_minutes) * 60 + 1,
        until + terms.buffer_before_minutes * 60,
    )
    diary = await looking.fill_diary(db, offering, within, moment=freed.span[0])
    # First what was freed, then what shares time with it: that would leave gaps nobody can use.
    begins = freed.span[0] + terms.buffer_before_minutes * 60
    slots = sorted(diary.slots(within), key=lambda slot: abs(slot.starts - begins))
    return await store.first_in_line(db, service_id, slots)


async def _offer(db: Db, match: Match, *, lasts: timedelta) -> None:
    """Hold the time for the client and tell them, unless they left or have another offer by now."""
    if not await store.hold_clients_place(db, match.client_id, match.entry_id):
        return
    wish = Wish(service_id=match.service_id, worker_id=match.worker_id, starts=match.starts)
    seat = await booking.take_seat(db, wish, Client(id=match.client_id))
    await store.make_offer(db, match.entry_id, seat.id, lasts=lasts)
    held = await appointment_store.read_appointment(db, seat.id)
    assert held is not None
    assert held.expires_at is not None
    event = SlotOffered(**telling.said_of(held), entry_id=match.entry_id, expires_at=held.expires_at)
    await telling.tell(db, event, outcome="offered")
    await timers.set_timer(db, telling.HOLD_DUE, held.id, due_at=held.expires_at)
