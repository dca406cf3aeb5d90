"""Book, read and cancel series."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.appointments.model import (
    UPCOMING_STATUSES,
    Appointment,
    BookingRequest,
    Client,
    Party,
)
from catraca.domains.scheduling.appointments.service import (
    choose_agenda,
    lock_appointments,
    lock_for_booking,
    party_of,
    read_schedule_around,
    reserve_seat,
)
from catraca.domains.scheduling.appointments.store import undone_if_refused
from catraca.domains.scheduling.availability.model import TAKEN, Conflict, ServiceSchedule, Slot, least_booked
from catraca.domains.scheduling.availability.service import (
    alternatives_to,
    around,
    read_schedule,
    read_schedule_at,
    slots_as_data,
)
from catraca.domains.scheduling.booking.service import cancel_locked, publish_booked
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.errors import (
    ClientBusy,
    SeriesTaken,
    SlotNotOffered,
    SlotTaken,
    TooManyInSeries,
)
from catraca.domains.scheduling.series import store
from catraca.domains.scheduling.series.model import Recurrence, occurrences
from catraca.domains.scheduling.shared.model import AppointmentId, BookingRules, SeriesId, SubjectId
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

# Each costs a statement and the search in two weeks.
MAX_WITH_ALTERNATIVES: Final = 5

find_worker_id = store.read_worker_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOccurrence:
    """A time of the series that could not be booked."""

    starts: Seconds
    code: str
    conflicts: Sequence[Conflict]
    alternatives: Sequence[Slot]

    def as_data(self) -> dict[str, Any]:
        """For the data of a refusal."""
        return {
            "starts_at": to_datetime(self.starts),
            "code": self.code,
            "faults": list(self.conflicts),
            "alternatives": slots_as_data(self.alternatives),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    id: SeriesId
    appointments: Sequence[Appointment]
    failed: Sequence[FailedOccurrence] = ()


async def book_series(
    db: Db,
    request: BookingRequest,
    recurrence: Recurrence,
    client: Client,
    *,
    skip_failed: bool,
    rules: BookingRules,
    by_operator: bool = False,
) -> Series:
    """Book all times with one worker, or none; with `skip_failed`, those that can be booked, if any can.

    The agendas are locked before the first read: no other booking comes in between. Unless `by_operator`, a
    series that is longer than the client's limit is refused as a whole.
    """
    limits = None if by_operator else rules.limits
    if limits is not None and recurrence.count > limits.in_series:
        raise TooManyInSeries(limit=limits.in_series)
    await lock_for_booking(db, request, client)
    worker = await _choose_worker(db, request, recurrence)
    wanted = occurrences(worker.time_zone, request.starts, recurrence)
    # One statement for all times: only bookings of this series can add conflicts later.
    conflicts = await _find_conflicts(db, request, worker.id, wanted)
    series_id = SeriesId(new_id())
    booked: list[Appointment] = []
    refused: dict[Seconds, str] = {}
    for starts in wanted:
        if conflicts[starts]:
            refused[starts] = (SlotTaken if TAKEN.issuperset(conflicts[starts]) else SlotNotOffered).code
            continue
        try:
            async with undone_if_refused(db):
                one = replace(request, worker_id=worker.id, starts=starts)
                booked.append(await reserve_seat(db, one, client, limits=limits, series_id=series_id))
        except (SlotTaken, SlotNotOffered, ClientBusy) as refusal:
            refused[starts] = refusal.code
    # Explained after the others are booked: their times are no alternatives.
    failed = await _explain(db, request, worker.id, refused)
    if not booked or (failed and not skip_failed):
        raise SeriesTaken(failed=[one.as_data() for one in failed])
    await publish_booked(db, *booked, rules=rules)
    return Series(id=series_id, appointments=await store.read_series(db, series_id), failed=failed)


async def _choose_worker(db: Db, request: BookingRequest, recurrence: Recurrence) -> Worker:
    """The worker who is free most often; of several, the least booked."""
    schedule = await read_schedule_around(db, request)
    if not schedule.agendas:
        choose_agenda(schedule, request)
    if len(schedule.agendas) == 1:
        return schedule.agendas[0].worker
    free = await _count_free(db, schedule, request, recurrence)
    most = max(free[agenda.worker.id] for agenda in schedule.agendas)
    return least_booked(agenda for agenda in schedule.agendas if free[agenda.worker.id] == most).worker


async def _count_free(
    db: Db, schedule: ServiceSchedule, request: BookingRequest, recurrence: Recurrence
) -> Counter[SubjectId]:
    """How many of the times, by its own local time, each worker is free."""
    wanted = {
        agenda.worker.id: {
            starts
            for starts in occurrences(agenda.worker.time_zone, request.starts, recurrence)
            if starts < schedule.latest(agenda)
        }
        for agenda in schedule.agendas
    }
    free = Counter[SubjectId]()
    moments = sorted(set[Seconds]().union(*wanted.values()))
    if not moments:
        return free
    there = await read_schedule_at(db, request.service_id, request.worker_id, moments)
    for starts in moments:
        free.update(
            agenda.worker.id
            for agenda in there.agendas
            if starts in wanted.get(agenda.worker.id, ()) and not there.conflicts(agenda, starts)
        )
        await asyncio.sleep(0)  # with many workers this takes long: other requests get their turn
    return free


async def _find_conflicts(
    db: Db, request: BookingRequest, worker_id: SubjectId, wanted: Sequence[Seconds]
) -> dict[Seconds, list[Conflict]]:
    """The conflicts of each time with the worker's agenda; none if it can be booked."""
    schedule = await read_schedule_at(db, request.service_id, worker_id, sorted(wanted))
    return {
        starts: [conflict for agenda in schedule.agendas for conflict in schedule.conflicts(agenda, starts)]
        for starts in wanted
    }


async def _explain(
    db: Db, request: BookingRequest, worker_id: SubjectId, refused: Mapping[Seconds, str]
) -> list[FailedOccurrence]:
    """The conflicts of all times that could not be booked, and alternatives to the first of them."""
    if not refused:
        return []
    conflicts = await _find_conflicts(db, request, worker_id, list(refused))
    return [
        FailedOccurrence(
            starts=starts,
            code=code,
            conflicts=conflicts[starts],
            alternatives=await _find_alternatives(db, request, worker_id, starts)
            if number < MAX_WITH_ALTERNATIVES
            else (),
        )
        for number, (starts, code) in enumerate(refused.items())
    ]


async def _find_alternatives(
    db: Db, request: BookingRequest, worker_id: SubjectId, starts: Seconds
) -> list[Slot]:
    schedule = await read_schedule(db, request.service_id, worker_id, around(starts), idle_before=starts)
    return alternatives_to(schedule, starts)


async def get_series(db: Db, caller: Principal, series_id: UUID) -> list[tuple[Appointment, Party]]:
    """The appointments to which the caller is a party, and which party; 404 if there are none."""
    found: list[tuple[Appointment, Party]] = [
        (one, party) for one in await store.read_series(db, series_id) if (party := party_of(caller, one))
    ]
    if not found:
        raise NotFound
    return found


async def cancel_series(
    db: Db, caller: Principal, series_id: UUID, *, reason: str | None
) -> list[Appointment]:
    """Cancel the caller's appointments of a series that have not begun. Safe to repeat."""
    found = await get_series(db, caller, series_id)
    parties: dict[AppointmentId, Party] = {one.id: party for one, party in found}
    locked = await lock_appointments(db, *sorted(parties))
    for one in sorted(locked, key=lambda one: (one.starts_at, one.id)):
        if one.status in UPCOMING_STATUSES and not one.has_begun:
            await cancel_locked(db, one, by=parties[one.id], reason=reason)
    return [one for one in await store.read_series(db, series_id) if one.id in parties]
