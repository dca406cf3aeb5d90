"""Every statement on workers, rooms, services and hours."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import cast
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import (
    Room,
    Service,
    ServiceId,
    SubjectId,
    SubjectNo,
    Terms,
    Worker,
)
from catraca.domains.scheduling.model.days_off import Holidays
from catraca.domains.scheduling.model.hours import Minutes, Rule
from catraca.platform.database import Db, Row

WORKER = "s.no, s.id, s.name, s.time_zone, s.user_id, s.holidays_country, s.holidays_state, s.retired"
TERMS = (
    "name, duration_minutes, buffer_before_minutes, buffer_after_minutes, min_notice_minutes, horizon_days,"
    " slot_step_minutes, capacity, retired"
)
_TERMS_NUMBERED = ", ".join(f"${place}" for place in range(2, 11))


async def insert_worker(
    db: Db,
    worker_id: SubjectId,
    *,
    name: str,
    time_zone: str,
    user_id: UserId | None,
    holidays: Holidays | None,
) -> Worker | None:
    """None when the account is another worker's."""
    row = await db.fetchrow(
        "INSERT INTO subjects AS s (id, kind, name, time_zone, user_id, holidays_country, holidays_state)"  # noqa: S608
        " VALUES ($1, 'worker', $2, $3, $4, $5, $6) ON CONFLICT (user_id) DO NOTHING"
        f" RETURNING {WORKER}",
        worker_id,
        name,
        time_zone,
        user_id,
        holidays and holidays.country,
        holidays and holidays.state,
    )
    return None if row is None else worker_of(row)


async def update_worker(
    db: Db,
    worker_no: SubjectNo,
    *,
    name: str,
    time_zone: str,
    holidays: Holidays | None,
    retired: bool,
) -> Worker:
    row = await db.fetchrow(
        "UPDATE subjects AS s SET name = $2, time_zone = $3, holidays_country = $4, holidays_state = $5,"  # noqa: S608
        f" retired = $6 WHERE no = $1 RETURNING {WORKER}",
        worker_no,
        name,
        time_zone,
        holidays and holidays.country,
        holidays and holidays.state,
        retired,
    )
    assert row is not None
    return worker_of(row)


async def insert_room(db: Db, room_id: SubjectId, *, name: str) -> Room:
    row = await db.fetchrow(
        "INSERT INTO subjects (id, kind, name) VALUES ($1, 'room', $2) RETURNING no, id, name, retired",
        room_id,
        name,
    )
    assert row is not None
    return Room(**row)


async def update_room(db: Db, room_id: SubjectId, *, name: str, retired: bool) -> Room | None:
    row = await db.fetchrow(
        "UPDATE subjects SET name = $2, retired = $3 WHERE id = $1 AND kind = 'room'"
        " RETURNING no, id, name, retired",
        room_id,
        name,
        retired,
    )
    return None if row is None else Room(**row)


async def read_worker(db: Db, worker_id: SubjectId) -> Worker | None:
    row = await db.fetchrow(
        f"SELECT {WORKER} FROM subjects s WHERE id = $1 AND kind = 'worker'",  # noqa: S608
        worker_id,
    )
    return None if row is None else worker_of(row)


async def worker_of_user(db: Db, user_id: UserId) -> Worker | None:
    row = await db.fetchrow(f"SELECT {WORKER} FROM subjects s WHERE user_id = $1", user_id)  # noqa: S608
    return None if row is None else worker_of(row)


async def find_workers(
    db: Db, *, service_id: ServiceId | None, after: UUID | None, limit: int, retired: bool
) -> list[Worker]:
    rows = await db.fetch(
        f"SELECT {WORKER} FROM subjects s WHERE kind = 'worker' AND (NOT retired OR $4)"  # noqa: S608
        " AND ($2::uuid IS NULL OR id > $2)"
        " AND ($1::uuid IS NULL OR EXISTS ("
        "   SELECT FROM service_subjects WHERE service_id = $1 AND subject_no = s.no))"
        " ORDER BY id LIMIT $3",
        service_id,
        after,
        limit,
        retired,
    )
    return [worker_of(row) for row in rows]


async def find_rooms(db: Db, *, after: UUID | None, limit: int, retired: bool) -> list[Room]:
    rows = await db.fetch(
        "SELECT no, id, name, retired FROM subjects WHERE kind = 'room' AND (NOT retired OR $3)"
        " AND ($1::uuid IS NULL OR id > $1) ORDER BY id LIMIT $2",
        after,
        limit,
        retired,
    )
    return [Room(**row) for row in rows]


async def find_room(db: Db, room_id: SubjectId) -> Room | None:
    row = await db.fetchrow(
        "SELECT no, id, name, retired FROM subjects WHERE id = $1 AND kind = 'room'", room_id
    )
    return None if row is None else Room(**row)


async def hold_subjects(db: Db, nos: Collection[SubjectNo]) -> None:
    """Nobody else writes to these agendas until the transaction ends. All at once, so in one order."""
    await db.execute(
        "SELECT FROM subjects WHERE no = ANY ($1::int[]) ORDER BY no FOR NO KEY UPDATE", sorted(nos)
    )


async def begin_to_hold(db: Db) -> None:
    """What is held from now on can be let go of: nobody may hold some subjects and then wait for others."""
    await db.execute("SAVEPOINT before_holding")


async def let_go(db: Db) -> None:
    await db.execute("ROLLBACK TO SAVEPOINT before_holding")


_CONCERNED = (
    "SELECT s.no FROM service_subjects JOIN subjects s ON s.no = subject_no"
    " WHERE service_id = $1 AND (s.kind = 'room' OR $2::uuid IS NULL OR s.id = $2)"
)


async def subjects_of_service(db: Db, service_id: ServiceId, worker_id: SubjectId | None) -> list[SubjectNo]:
    """Whose time a booking may take: the worker's or all workers', and the rooms'."""
    return [row["no"] for row in await db.fetch(_CONCERNED, service_id, worker_id)]


async def hold_for_service(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, *more: SubjectNo
) -> None:
    """Nobody else writes to theirs, nor to those of `more`, until the transaction ends."""
    await db.execute(
        # As an array, which is found once: joined, all subjects there are would be looked through for them.
        f"SELECT FROM subjects WHERE no = ANY (ARRAY({_CONCERNED}) || $3::int[])"
        " ORDER BY no FOR NO KEY UPDATE",
        service_id,
        worker_id,
        list(more),
    )


async def insert_service(db: Db, service_id: ServiceId, terms: Terms) -> Service:
    row = await db.fetchrow(
        f"INSERT INTO services (id, {TERMS}) VALUES ($1, {_TERMS_NUMBERED}) RETURNING id, {TERMS}",  # noqa: S608
        service_id,
        *_values(terms),
    )
    assert row is not None
    return service_of(row)


async def insert_service_if_new(db: Db, service_id: ServiceId, terms: Terms) -> bool:
    """Whether there was none of that id; somebody else who makes one this moment is waited for."""
    inserted = await db.fetchval(
        f"INSERT INTO services (id, {TERMS}) VALUES ($1, {_TERMS_NUMBERED})"  # noqa: S608
        " ON CONFLICT (id) DO NOTHING RETURNING true",
        service_id,
        *_values(terms),
    )
    return inserted is not None


async def update_service(db: Db, service_id: ServiceId, terms: Terms) -> Service | None:
    row = await db.fetchrow(
        f"UPDATE services SET ({TERMS}) = ({_TERMS_NUMBERED}) WHERE id = $1 RETURNING id, {TERMS}",  # noqa: S608
        service_id,
        *_values(terms),
    )
    return None if row is None else service_of(row)


async def hold_service(db: Db, service_id: ServiceId) -> bool:
    """Nobody else says what belongs to the service until the transaction ends; whether there is one."""
    found = await db.fetchval("SELECT true FROM services WHERE id = $1 FOR NO KEY UPDATE", service_id)
    return found is not None


async def read_service(db: Db, service_id: ServiceId) -> Service | None:
    row = await db.fetchrow(f"SELECT id, {TERMS} FROM services WHERE id = $1", service_id)  # noqa: S608
    return None if row is None else service_of(row)


async def find_services(db: Db, *, after: UUID | None, limit: int, retired: bool) -> list[Service]:
    rows = await db.fetch(
        f"SELECT id, {TERMS} FROM services WHERE (NOT retired OR $3) AND ($1::uuid IS NULL OR id > $1)"  # noqa: S608
        " ORDER BY id LIMIT $2",
        after,
        limit,
        retired,
    )
    return [service_of(row) for row in rows]


async def replace_services(db: Db, worker_no: SubjectNo, service_ids: Sequence[ServiceId]) -> list[ServiceId]:
    """What the worker does from now on; those of the ids that exist."""
    await db.execute("DELETE FROM service_subjects WHERE subject_no = $1", worker_no)
    rows = await db.fetch(
        "INSERT INTO service_subjects (service_id, subject_no)"
        " SELECT id, $1 FROM services WHERE id = ANY ($2::uuid[]) ORDER BY id RETURNING service_id",
        worker_no,
        service_ids,
    )
    return [row["service_id"] for row in rows]


async def services_of(db: Db, worker_no: SubjectNo) -> list[ServiceId]:
    rows = await db.fetch(
        "SELECT service_id FROM service_subjects WHERE subject_no = $1 ORDER BY service_id", worker_no
    )
    return [row["service_id"] for row in rows]


async def replace_rooms(db: Db, service_id: ServiceId, room_ids: Sequence[SubjectId]) -> list[SubjectId]:
    """Where the service is done from now on; those of the ids that are rooms."""
    await db.execute(
        "DELETE FROM service_subjects USING subjects s"
        " WHERE service_id = $1 AND s.no = subject_no AND s.kind = 'room'",
        service_id,
    )
    rows = await db.fetch(
        "WITH room AS (SELECT no, id FROM subjects WHERE id = ANY ($2::uuid[]) AND kind = 'room'),"
        " added AS (INSERT INTO service_subjects (service_id, subject_no) SELECT $1, no FROM room)"
        " SELECT id FROM room ORDER BY id",
        service_id,
        room_ids,
    )
    return [row["id"] for row in rows]


async def rooms_of(db: Db, service_id: ServiceId) -> list[SubjectId]:
    rows = await db.fetch(
        "SELECT s.id FROM service_subjects JOIN subjects s ON s.no = subject_no"
        " WHERE service_id = $1 AND s.kind = 'room' ORDER BY s.id",
        service_id,
    )
    return [row["id"] for row in rows]


async def replace_rules(db: Db, worker_no: SubjectNo, rules: Iterable[Rule]) -> None:
    await db.execute("DELETE FROM worker_rules WHERE subject_no = $1", worker_no)
    await db.executemany(
        "INSERT INTO worker_rules (subject_no, weekday, start_minute, end_minute, valid_from, valid_to)"
        " VALUES ($1, $2, $3, $4, $5, $6)",
        [
            (worker_no, rule.weekday, rule.start_minute, rule.end_minute, rule.valid_from, rule.valid_to)
            for rule in rules
        ],
    )


async def rules_of(db: Db, worker_no: SubjectNo) -> list[Rule]:
    rows = await db.fetch(
        "SELECT weekday, start_minute, end_minute, valid_from, valid_to FROM worker_rules"
        " WHERE subject_no = $1 ORDER BY weekday, start_minute, valid_from NULLS FIRST",
        worker_no,
    )
    return [Rule(**row) for row in rows]


async def replace_overrides(
    db: Db, worker_no: SubjectNo, days: Iterable[tuple[date, Collection[Minutes]]]
) -> None:
    await db.execute("DELETE FROM worker_overrides WHERE subject_no = $1", worker_no)
    await db.executemany(
        "INSERT INTO worker_overrides (subject_no, day, start_minute, end_minute) VALUES ($1, $2, $3, $4)",
        [(worker_no, day, *minutes) for day, shifts in days for minutes in (shifts or [(None, None)])],
    )


async def overrides_of(db: Db, worker_no: SubjectNo) -> dict[date, list[Minutes]]:
    rows = await db.fetch(
        "SELECT day, start_minute, end_minute FROM worker_overrides WHERE subject_no = $1"
        " ORDER BY day, start_minute",
        worker_no,
    )
    return by_day(rows)


def by_day(rows: Iterable[Row]) -> dict[date, list[Minutes]]:
    """A day with a row and no minutes is a day off."""
    days: dict[date, list[Minutes]] = {}
    for row in rows:
        shifts = days.setdefault(row["day"], [])
        if row["start_minute"] is not None:
            shifts.append((row["start_minute"], row["end_minute"]))
    return days


def worker_of(row: Row) -> Worker:
    country: str | None = row["holidays_country"]
    return Worker(
        id=row["id"],
        no=row["no"],
        name=row["name"],
        time_zone=row["time_zone"],
        user_id=row["user_id"],
        holidays=Holidays(country, row["holidays_state"]) if country else None,
        retired=row["retired"],
    )


def service_of(row: Row) -> Service:
    columns = dict(row)
    return Service(id=cast(ServiceId, columns.pop("id")), terms=Terms(**columns))


def _values(terms: Terms) -> list[object]:
    return [getattr(terms, name) for name in TERMS.replace(",", "").split()]
