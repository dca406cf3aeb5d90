"""The time to find free slots, from PostgreSQL to the answer, in agendas that are mostly booked."""

import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from uuid import UUID, uuid4

import asyncpg

from catraca.cli import OBJECTS_BETWEEN_COLLECTIONS
from catraca.domains.scheduling.availability.service import find_slots, read_schedule
from catraca.domains.scheduling.calendar_math.spans import DAY, Span
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import ServiceId
from catraca.platform.clock import now
from catraca.platform.database import Database, Db

WORKERS = (1, 10, MOST_WORKERS := 100)
DAYS = 31
PAGE = 100
ZONES = ("America/Sao_Paulo", "America/New_York", "America/Bahia")
ASKED_TIMES = 60
# The first calls fill the caches of plans and local times.
WARM_UP = 10
FREE = "free intervals, {workers} workers x {days} days"
FIRST_PAGE = f"first page of {PAGE} slots, {{workers}} workers x {{days}} days"


@dataclass(frozen=True, slots=True)
class Waited:
    """In milliseconds."""

    name: str
    workers: int
    median: float
    p99: float


@dataclass(frozen=True, slots=True)
class Agendas:
    service_id: ServiceId
    within: Span


def is_asked_for(words: str) -> bool:
    return any(
        words in name.format(workers=count, days=DAYS) for name in (FREE, FIRST_PAGE) for count in WORKERS
    )


async def free_milliseconds(database_url: str) -> list[Waited]:
    """For each number of workers: the free time of a month, and the first page of slots."""
    database = await Database.open(database_url)
    found: list[Waited] = []
    collected = gc.get_threshold()
    # As in every serving process.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        for workers in WORKERS:
            agendas = await fill_agendas(database_url, workers)

            async def free(db: Db, agendas: Agendas = agendas) -> object:
                schedule = await read_schedule(
                    db, agendas.service_id, None, agendas.within, idle_before=agendas.within[0]
                )
                return [agenda.free for agenda in schedule.agendas]

            async def first_page(db: Db, agendas: Agendas = agendas) -> object:
                return await find_slots(
                    db, agendas.service_id, worker_id=None, within=agendas.within, after=None, limit=PAGE
                )

            for name, ask in ((FREE, free), (FIRST_PAGE, first_page)):
                waited = await _waited(database, ask)
                found.append(Waited(name.format(workers=workers, days=DAYS), workers, *waited))
    finally:
        gc.set_threshold(*collected)
        await database.close()
    return found


async def _waited(database: Database, ask: Callable[[Db], Awaitable[object]]) -> tuple[float, float]:
    taken: list[float] = []
    for number in range(WARM_UP + ASKED_TIMES):
        began = perf_counter()
        await database.run(ask)
        if number >= WARM_UP:
            taken.append((perf_counter() - began) * 1000)
    taken.sort()
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


async def fill_agendas(database_url: str, workers: int) -> Agendas:
    """Nine hours on five days a week, eight of them booked; a quarter of each hour is a buffer."""
    tomorrow = (to_seconds(now()) // DAY + 1) * DAY
    service_id = uuid4()
    db = await asyncpg.connect(database_url)
    try:
        async with db.transaction():
            await db.execute(
                "INSERT INTO services (id, name, duration_minutes, buffer_before_minutes,"
                "   buffer_after_minutes, min_notice_minutes, horizon_days, slot_step_minutes, capacity)"
                " VALUES ($1, 'Medida', 45, 0, 15, 60, 60, 15, 1)",
                service_id,
            )
            for number in range(workers):
                await _add_worker(db, service_id, number)
            await _book(db, service_id, tomorrow)
        await db.execute("VACUUM ANALYZE claims, appointments, subjects, worker_rules, service_subjects")
    finally:
        await db.close()
    return Agendas(ServiceId(service_id), (tomorrow, tomorrow + DAYS * DAY))


async def _add_worker(db: asyncpg.Connection, service_id: UUID, number: int) -> None:
    await db.execute(
        "WITH worker AS ("
        "   INSERT INTO subjects (id, kind, name, time_zone) VALUES ($1, 'worker', 'Medida', $2)"
        "   RETURNING no),"
        " serves AS (INSERT INTO service_subjects SELECT $3, no FROM worker)"
        " INSERT INTO worker_rules (subject_no, weekday, start_minute, end_minute)"
        " SELECT no, weekday, 540, 1080 FROM worker CROSS JOIN generate_series(1, 5) AS weekday",
        uuid4(),
        ZONES[number % len(ZONES)],
        service_id,
    )


async def _book(db: asyncpg.Connection, service_id: UUID, first: int) -> None:
    """Each worker has a different free hour each day, also before and after the measured span."""
    await db.execute(
        "WITH booked AS ("
        "   SELECT w.no, gen_random_uuid() AS id, gen_random_uuid() AS session_id, w.time_zone,"
        "     day + hour * interval '1 hour' AS local,"
        "     (day + hour * interval '1 hour') AT TIME ZONE w.time_zone AS begins_at"
        "   FROM service_subjects JOIN subjects w ON w.no = subject_no"
        "   CROSS JOIN generate_series(-30, 60) AS place"
        "   CROSS JOIN LATERAL (SELECT date 'epoch' + $2::int + place AS day) AS on_day"
        "   CROSS JOIN generate_series(9, 17) AS hour"
        "   WHERE service_id = $1 AND extract(isodow FROM day) < 6 AND hour <> 9 + (w.no + place + 30) % 9),"
        " claimed AS ("
        "   INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, service_id, begins_at, finishes_at,"
        "     capacity)"
        "   SELECT session_id, no, begins_at, begins_at + interval '1 hour', 'session', $1, begins_at,"
        "     begins_at + interval '45 minutes', 1 FROM booked)"
        " INSERT INTO appointments (id, service_id, worker_no, client_name, status, session_id, seat_no,"
        "   capacity, starts_at, ends_at, local_starts_at, time_zone, tzdata_version)"
        " SELECT id, $1, no, 'Medida', 'BOOKED', session_id, 1, 1, begins_at,"
        "   begins_at + interval '45 minutes', local, time_zone, 'measured' FROM booked",
        service_id,
        first // DAY,
    )
