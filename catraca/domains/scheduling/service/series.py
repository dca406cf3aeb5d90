"""Series: several appointments at once, at the same time on the worker's clocks every so often."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from catraca.domains.scheduling.errors import SeriesTaken, SlotNotOffered, SlotTaken
from catraca.domains.scheduling.model.agendas import (
    Appointment,
    AppointmentId,
    Client,
    Party,
    SubjectId,
    Worker,
)
from catraca.domains.scheduling.model.diary import Diary, Fault, Slot, fairest
from catraca.domains.scheduling.model.series import Every, SeriesId, occurrences
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.service import booking, looking, moving, telling
from catraca.domains.scheduling.service.booking import BookingRules, Wish
from catraca.domains.scheduling.store import agendas as agenda_store
from catraca.domains.scheduling.store import diaries
from catraca.domains.scheduling.store import series as store
from catraca.events import AppointmentBooked
from catraca.platform.database import Db
from catraca.platform.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often, and how many times in all."""

    every: Every
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """One that could not be booked: why, and what is free near it."""

    starts: Seconds
    code: str
    faults: Sequence[Fault]
    alternatives: Sequence[Slot]

    def shown(self) -> dict[str, Any]:
        """As a refusal tells it."""
        return {
            "starts_at": at(self.starts),
            "code": self.code,
            "faults": list(self.faults),
            "alternatives": looking.shown(self.alternatives),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    id: SeriesId
    appointments: Sequence[Appointment]
    failed: Sequence[Failed] = ()


async def book_series(
    db: Db, wish: Wish, rhythm: Rhythm, client: Client, *, skips: bool, rules: BookingRules
) -> Series:
    """All of them with one worker, or nothing; where it `skips`, those that can be, if any can.

    The agendas are held from before the first look to the end: nobody comes between two of them.
    """
    await agenda_store.hold_for_service(db, wish.service_id, wish.worker_id)
    worker = await _worker_for_most(db, wish, rhythm)
    booked: list[Appointment] = []
    refused: dict[Seconds, str] = {}
    for starts in _times(worker, wish, rhythm):
        try:
            async with store.undone_if_refused(db):
                one = replace(wish, worker_id=worker.id, starts=starts)
                booked.append(await booking.take_seat(db, one, client))
        except (SlotTaken, SlotNotOffered) as refusal:
            refused[starts] = refusal.code
    failed = [await _explain(db, wish, worker.id, starts, code) for starts, code in refused.items()]
    if not booked or (failed and not skips):
        raise SeriesTaken(failed=[one.shown() for one in failed])
    series_id = SeriesId(new_id())
    await store.make_series(db, series_id, [one.id for one in booked])
    for one in booked:
        await telling.remind_in_time(db, one, rules.reminder)
        await telling.tell(db, AppointmentBooked(**telling.said_of(one)), outcome="booked")
    return Series(id=series_id, appointments=await store.read_series(db, series_id), failed=failed)


async def cancel_series(
    db: Db, series_id: UUID, parties: Mapping[AppointmentId, Party], *, reason: str | None
) -> list[Appointment]:
    """Cancel what has not begun of those in `parties`, which say as whom; safe to repeat."""
    await moving.hold_agendas(db, *sorted(parties))
    for appointment_id in await store.upcoming_of(db, series_id):
        if appointment_id in parties:
            await moving.cancel(db, appointment_id, by=parties[appointment_id], reason=reason)
    return await store.read_series(db, series_id)


def _times(worker: Worker, wish: Wish, rhythm: Rhythm) -> list[Seconds]:
    return occurrences(worker.time_zone, wish.starts, rhythm.every, rhythm.count)


async def _worker_for_most(db: Db, wish: Wish, rhythm: Rhythm) -> Worker:
    """Whoever is free for the most of it; of several, the fairest, as for a single one."""
    diary = await booking.read_diary(db, wish)
    if not diary.agendas:
        booking.choose(diary, wish)
    if len(diary.agendas) == 1:
        return diary.agendas[0].worker
    free = await _times_free(db, diary, wish, rhythm)
    most = max(free[agenda.worker.id] for agenda in diary.agendas)
    return fairest(agenda for agenda in diary.agendas if free[agenda.worker.id] == most).worker


async def _times_free(db: Db, diary: Diary, wish: Wish, rhythm: Rhythm) -> Counter[SubjectId]:
    """How many of the times each worker is free, by their own clocks."""
    wanted = {
        agenda.worker.id: {
            starts for starts in _times(agenda.worker, wish, rhythm) if starts < diary.latest(agenda)
        }
        for agenda in diary.agendas
    }
    offering = await diaries.read_offering(db, wish.service_id, wish.worker_id)
    assert offering is not None, "it was there a moment ago, and services stay"
    free = Counter[SubjectId]()
    for starts in sorted(set[Seconds]().union(*wanted.values())):
        there = await looking.fill_diary(db, offering, (starts, starts + 1), moment=starts)
        free.update(
            agenda.worker.id
            for agenda in there.agendas
            if starts in wanted.get(agenda.worker.id, ()) and not there.faults(agenda, starts)
        )
    return free


async def _explain(db: Db, wish: Wish, worker_id: SubjectId, starts: Seconds, code: str) -> Failed:
    """Asked when the rest of the series is booked: what it has taken is no alternative."""
    _, explained, alternatives = await looking.explain_slot(
        db, wish.service_id, worker_id=worker_id, starts=starts
    )
    faults: list[Fault] = [fault for one in explained for fault in one.faults]
    return Failed(starts=starts, code=code, faults=faults, alternatives=alternatives)
