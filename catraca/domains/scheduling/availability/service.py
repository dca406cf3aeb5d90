"""Pages of free slots, and the free slots nearest to a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Final

from catraca.domains.scheduling.agendas.service import get_worker
from catraca.domains.scheduling.availability import store
from catraca.domains.scheduling.availability.model import ServiceSchedule, Slot, nearest
from catraca.domains.scheduling.calendar_math.spans import DAY, Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.errors import RangeInvalid, RangeTooLong
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.platform.database import Db
from catraca.platform.errors import NotFound

MAX_DAYS: Final = 92
# The spans read one after the other: most pages are full after the first.
WINDOWS: tuple[Seconds, ...] = (2 * DAY, 8 * DAY, 31 * DAY)
# Alternatives are searched, and booked time is counted, so long before and after a time.
AROUND: Seconds = 7 * DAY
MAX_ALTERNATIVES: Final = 5


@dataclass(frozen=True, slots=True)
class SlotsFound:
    slots: list[Slot]
    has_more: bool


async def read_schedule(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, within: Span, *, idle_before: Seconds
) -> ServiceSchedule:
    """The schedule for starts in a span. Unknown service or worker: 404.

    Worker without this service: no agendas.
    """
    schedule = await store.read_schedule(db, service_id, worker_id, within, idle_before=idle_before)
    if schedule is None:
        raise NotFound
    if worker_id is not None and not schedule.agendas:
        await get_worker(db, worker_id)
    return schedule


async def find_slots(
    db: Db,
    service_id: ServiceId,
    *,
    worker_id: SubjectId | None,
    within: Span,
    after: tuple[Seconds, SubjectId] | None,
    limit: int,
) -> SlotsFound:
    """The free slots of a service, of one worker or all, sorted, that follow `after`."""
    check_range(within)
    start, end = within
    if after is not None:
        start = min(max(start, after[0]), end)
    found: list[Slot] = []
    for length in chain(WINDOWS, repeat(WINDOWS[-1])):
        window = start, min(start + length, end)
        schedule = await read_schedule(db, service_id, worker_id, window, idle_before=start)
        following = (slot for slot in schedule.slots(window) if after is None or slot[:2] > after)
        found.extend(islice(following, limit + 1 - len(found)))
        # Before the notice and after the horizon nothing can be booked. One more day, for clock changes.
        start = max(window[1], schedule.earliest)
        end = min(end, schedule.now + (schedule.service.terms.horizon_days + 1) * DAY)
        if len(found) > limit or start >= end:
            break
    return SlotsFound(found[:limit], has_more=len(found) > limit)


def check_range(within: Span) -> None:
    if within[0] >= within[1]:
        raise RangeInvalid
    if within[1] - within[0] > MAX_DAYS * DAY:
        raise RangeTooLong(most_days=MAX_DAYS)


def around(starts: Seconds) -> Span:
    return starts - AROUND, starts + AROUND


def alternatives_to(schedule: ServiceSchedule, starts: Seconds) -> list[Slot]:
    """The nearest free slots before and after a time, in a schedule that was read `around` it."""
    first, last = around(starts)
    after = islice(schedule.slots((starts, last)), MAX_ALTERNATIVES)
    before = islice(schedule.slots_backwards((first, starts)), MAX_ALTERNATIVES)
    return nearest([*before, *after], starts, limit=MAX_ALTERNATIVES)


def slots_as_data(slots: Sequence[Slot]) -> list[dict[str, object]]:
    """For the data of a refusal."""
    return [
        {
            "worker_id": slot.worker_id,
            "starts_at": to_datetime(slot.starts),
            "ends_at": to_datetime(slot.ends),
            "seats_left": slot.seats_left,
        }
        for slot in slots
    ]
