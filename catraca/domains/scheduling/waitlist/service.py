"""Join and leave the waitlist, and offer freed time to the entry that has waited longest.

An offer is a hold for the client. A client who declines it goes to the end of the line and is not offered
that time again; a client who lets it expire leaves the waitlist. Each offer is a transaction of its own: it
locks the agendas first, then the client and the client's entries. So offers cannot deadlock, and two
dispatchers make neither two offers of one time nor two offers to one client.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.service import get_service, get_worker
from catraca.domains.scheduling.appointments.model import BookingRequest, Client
from catraca.domains.scheduling.appointments.service import (
    event_fields,
    lock_client,
    publish,
    reserve_seat,
)
from catraca.domains.scheduling.appointments.store import (
    count_upcoming,
    read_appointment,
    undone_if_refused,
)
from catraca.domains.scheduling.availability.model import Slot
from catraca.domains.scheduling.availability.service import check_range, find_slots, read_schedule
from catraca.domains.scheduling.calendar_math.spans import DAY, Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime, to_seconds
from catraca.domains.scheduling.errors import (
    ClientBusy,
    ServiceRetired,
    TooManyAppointments,
    TooManyWaits,
)
from catraca.domains.scheduling.freed_time import store as freed_time_store
from catraca.domains.scheduling.freed_time.service import AT_ONCE, TIME_FREED, WAIT_DUE, record_freed_seat
from catraca.domains.scheduling.freed_time.store import FreedTime
from catraca.domains.scheduling.holds.service import expire_by_timer, release_hold
from catraca.domains.scheduling.shared.model import ClientLimits, EntryId, ServiceId, SubjectId
from catraca.domains.scheduling.shared.store import lock_for_services
from catraca.domains.scheduling.waitlist import store
from catraca.domains.scheduling.waitlist.model import Match, WaitlistEntry
from catraca.events import SlotOffered
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.database import Db, timers
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

MAX_ENTRIES: Final = 20
# Read for a client who has other appointments in the range; of the others, one is enough.
MOST_SLOTS: Final = 500
# Of freed time, so much is searched in one transaction.
SEARCHED_AT_ONCE: Seconds = DAY
SEARCH_AGAIN: Final = timedelta(seconds=1)
SEARCH_EVERY: Final = timedelta(hours=1)

find_entries = store.find_entries


# Join and leave


async def join_waitlist(
    db: Db,
    service_id: ServiceId,
    client_id: UserId,
    *,
    worker_id: SubjectId | None,
    starts_from: datetime,
    starts_before: datetime,
) -> WaitlistEntry:
    """Wait for a slot that starts in the range. If one is free now, it is offered at once."""
    check_range((to_seconds(starts_from), to_seconds(starts_before)))
    service = await get_service(db, service_id)
    if service.terms.retired:
        raise ServiceRetired
    if worker_id is not None:
        await get_worker(db, worker_id)
    entry_id = EntryId(new_id())
    inserted = await store.insert_entry(
        db,
        entry_id,
        service_id=service_id,
        worker_id=worker_id,
        client_id=client_id,
        starts_from=starts_from,
        starts_before=starts_before,
        max_entries=MAX_ENTRIES,
    )
    if not inserted:
        raise TooManyWaits(limit=MAX_ENTRIES)
    await timers.set_timer(db, WAIT_DUE, entry_id, due_in=AT_ONCE)
    return await get_entry(db, entry_id)


async def get_entry(db: Db, entry_id: UUID) -> WaitlistEntry:
    entry = await store.read_entry(db, entry_id)
    if entry is None:
        raise NotFound
    return entry


async def leave_waitlist_for(db: Db, caller: Principal, entry_id: EntryId) -> None:
    """Leave the waitlist for the entry's client or an operator; for other callers: 404."""
    entry = await get_entry(db, entry_id)
    if entry.client_id != caller.id and not caller.has("operator"):
        raise NotFound
    await leave_waitlist(db, entry)


async def leave_waitlist(db: Db, entry: WaitlistEntry) -> None:
    """Cancel an entry and release its offer. A booked offer stays booked. Safe to repeat."""
    if entry.offer is not None and entry.status == "OFFERED":
        hold = await read_appointment(db, entry.offer.hold_id)
        if hold is not None:
            await release_hold(db, hold)
    await store.cancel_entries(db, [entry.id])


async def leave_all(db: Db, client_id: UserId) -> None:
    """Cancel all entries of a client that wait."""
    await store.cancel_entries(db, await freed_time_store.waiting_entries(db, client_id))


# Offers


async def search_for_entry(db: Db, entry_id: UUID, *, limits: ClientLimits) -> None:
    """An entry's timer: search a free slot for it, or expire it when its range is over. Safe to repeat.

    The slot found is recorded as freed time, which is offered to the first in line. That may be another
    entry, so the search is repeated soon.
    """
    entry = await store.read_entry(db, entry_id)
    if entry is None or entry.status != "WAITING" or await store.expire_entry(db, entry.id):
        return
    # Waits for transactions that free time and cannot see this entry yet.
    await lock_for_services(db, [entry.service_id], entry.worker_id)
    slot = await _first_free_slot(db, entry) if await _may_get_offer(db, entry, limits) else None
    if slot is not None:
        await record_freed_seat(
            db,
            entry.service_id,
            [slot.worker_id],
            starts_at=to_datetime(slot.starts),
            ends_at=to_datetime(slot.ends),
        )
        await timers.set_timer(db, WAIT_DUE, entry.id, due_in=SEARCH_AGAIN)
    elif entry.starts_before - now() > SEARCH_EVERY:
        # Days that come into the horizon and changed services are not recorded as freed time.
        await timers.set_timer(db, WAIT_DUE, entry.id, due_in=SEARCH_EVERY)
    else:
        await timers.set_timer(db, WAIT_DUE, entry.id, due_at=entry.starts_before)


async def _may_get_offer(db: Db, entry: WaitlistEntry, limits: ClientLimits) -> bool:
    upcoming, _ = await count_upcoming(db, entry.client_id)
    return upcoming < limits.upcoming and not await store.has_offer(db, entry.client_id)


async def _first_free_slot(db: Db, entry: WaitlistEntry) -> Slot | None:
    """The first slot in the entry's range that it was not offered before and at which the client is free."""
    before = await store.offered_before(db, entry.id)
    within = to_seconds(entry.starts_from), to_seconds(entry.starts_before)
    busy = await store.busy_times(db, entry.client_id, (within[0], within[1] + DAY))
    found = await find_slots(
        db,
        entry.service_id,
        worker_id=entry.worker_id,
        within=within,
        after=None,
        limit=MOST_SLOTS if busy else len(before) + 1,
    )
    return next(
        (
            slot
            for slot in found.slots
            if (slot.starts, slot.worker_id) not in before
            and not any(slot.starts < ends and starts < slot.ends for starts, ends in busy)
        ),
        None,
    )


async def offer_freed_time(db: Db, freed_id: UUID, *, expires_in: timedelta, limits: ClientLimits) -> None:
    """The timer of freed time: make one offer, or go on to the next part of it. Safe to repeat."""
    freed = await freed_time_store.read_freed_time(db, freed_id)
    if freed is None:
        return
    services = await freed_time_store.awaited_services(db, freed)
    await lock_for_services(db, services, freed.worker_id)
    until = min(freed.span[1], freed.span[0] + SEARCHED_AT_ONCE) if services else freed.span[1]
    matches = [await _first_match(db, service_id, freed, until, limits) for service_id in services]
    first = min((one for one in matches if one), key=lambda one: (one.queued_at, one.entry_id), default=None)
    if first is not None:
        # Refused if the client has just booked something: then the next search skips it.
        with suppress(ClientBusy, TooManyAppointments):
            async with undone_if_refused(db):
                await _offer(db, first, expires_in=expires_in, limits=limits)
    # After an offer the same part is searched again: other entries may want other slots of it.
    if first is not None or await freed_time_store.cut_freed_time(db, freed.id, until):
        await timers.set_timer(db, TIME_FREED, freed.id, due_in=AT_ONCE)


async def _first_match(
    db: Db, service_id: ServiceId, freed: FreedTime, until: Seconds, limits: ClientLimits
) -> Match | None:
    terms = (await get_service(db, service_id)).terms
    # The starts whose claim overlaps the freed time.
    within: Span = (
        freed.span[0] - (terms.duration_minutes + terms.buffer_after_minutes) * 60 + 1,
        until + terms.buffer_before_minutes * 60,
    )
    schedule = await read_schedule(db, service_id, freed.worker_id, within, idle_before=freed.span[0])
    # The freed start first: slots that only overlap the freed time would leave gaps too short to book.
    freed_start = freed.span[0] + terms.buffer_before_minutes * 60
    slots = sorted(schedule.slots(within), key=lambda slot: abs(slot.starts - freed_start))
    return await store.first_in_line(db, service_id, slots, limits)


async def _offer(db: Db, match: Match, *, expires_in: timedelta, limits: ClientLimits) -> None:
    """Hold the time for the client and publish the offer, unless the client left or has another offer."""
    # Before the entries, as a booking that closes the client's expired offer locks them.
    await lock_client(db, match.client_id)
    if not await store.lock_waiting_entry(db, match.client_id, match.entry_id):
        return
    request = BookingRequest(service_id=match.service_id, worker_id=match.worker_id, starts=match.starts)
    seat = await reserve_seat(db, request, Client(id=match.client_id), limits=limits)
    await store.make_offer(db, match.entry_id, seat.id, expires_in=expires_in)
    hold = await read_appointment(db, seat.id)
    assert hold is not None
    assert hold.expires_at is not None
    event = SlotOffered(**event_fields(hold), entry_id=match.entry_id, expires_at=hold.expires_at)
    await publish(db, event, outcome="offered")
    await expire_by_timer(db, hold)
