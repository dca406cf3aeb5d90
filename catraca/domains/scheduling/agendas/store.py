"""Statements on workers with their hours, rooms and services."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import cast
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.model import Room, Service, ServiceTerms, Worker, WorkerDetails
from catraca.domains.scheduling.calendar_math.holidays import Holidays
from catraca.domains.scheduling.calendar_math.hours import Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import Span
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db, Row

# A day and a shift's minutes; without minutes: a day off.
Override = tuple[date, int | None, int | None]

WORKER = "s.no, s.id, s.name, s.time_zone, s.user_id, s.holidays_country, s.holidays_state, s.retired"
ROOM = "no, id, name, retired"
TERMS = (
    "name, duration_minutes, buffer_before_minutes, buffer_after_minutes, min_notice_minutes, horizon_days,"
    " slot_step_minutes, capacity, retired"
)
TERM_NAMES = TERMS.split(", ")
_TERM_PARAMETERS = ", ".join(f"${place}" for place in range(2, len(TERM_NAMES) + 2))


# Workers


async def insert_worker(
    db: Db, worker_id: SubjectId, details: WorkerDetails, user_id: UserId | None
) -> Worker | None:
    """None if the account belongs to another worker."""
    row = await db.fetchrow(
        f"""
        INSERT INTO subjects AS s
          (id, kind, user_id, name, time_zone, holidays_country, holidays_state, retired)
        VALUES ($1, 'worker', $2, $3, $4, $5, $6, $7)
        ON CONFLICT (user_id) DO NOTHING
        RETURNING {WORKER}
        """,  # noqa: S608
        worker_id,
        user_id,
        *_worker_values(details),
    )
    return None if row is None else worker_of(row)


async def update_worker(db: Db, worker_no: SubjectNo, details: WorkerDetails) -> Worker:
    """A retired worker loses the calendar link, for good."""
    row = await db.fetchrow(
        f"""
        UPDATE subjects AS s
        SET name = $2, time_zone = $3, holidays_country = $4, holidays_state = $5, retired = $6,
          feed_hash = CASE WHEN $6 THEN NULL ELSE feed_hash END,
          feed_granted_at = CASE WHEN $6 THEN NULL ELSE feed_granted_at END
        WHERE no = $1
        RETURNING {WORKER}
        """,  # noqa: S608
        worker_no,
        *_worker_values(details),
    )
    assert row is not None
    return worker_of(row)


def _worker_values(details: WorkerDetails) -> tuple[object, ...]:
    place = details.holidays
    return details.name, details.time_zone, place and place.country, place and place.state, details.retired


async def read_worker(db: Db, worker_id: SubjectId, *, lock: bool = False) -> Worker | None:
    """With `lock`, the worker's row is locked until the transaction ends."""
    row = await db.fetchrow(
        f"SELECT {WORKER} FROM subjects s WHERE id = $1 AND kind = 'worker'"  # noqa: S608
        + (" FOR NO KEY UPDATE" if lock else ""),
        worker_id,
    )
    return None if row is None else worker_of(row)


async def read_worker_of_user(db: Db, user_id: UserId) -> Worker | None:
    row = await db.fetchrow(f"SELECT {WORKER} FROM subjects s WHERE user_id = $1", user_id)  # noqa: S608
    return None if row is None else worker_of(row)


async def find_workers(
    db: Db, *, service_id: ServiceId | None, after: UUID | None, limit: int, retired: bool
) -> list[Worker]:
    rows = await db.fetch(
        f"""
        SELECT {WORKER} FROM subjects s
        WHERE kind = 'worker' AND (NOT retired OR $4) AND ($2::uuid IS NULL OR id > $2)
          AND ($1::uuid IS NULL
            OR EXISTS (SELECT FROM service_subjects
              WHERE service_id = $1 AND kind = s.kind AND subject_no = s.no))
        ORDER BY id LIMIT $3
        """,  # noqa: S608
        service_id,
        after,
        limit,
        retired,
    )
    return [worker_of(row) for row in rows]


async def read_active_workers(db: Db) -> list[Worker]:
    rows = await db.fetch(
        f"SELECT {WORKER} FROM subjects s WHERE kind = 'worker' AND NOT retired ORDER BY no"  # noqa: S608
    )
    return [worker_of(row) for row in rows]


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


# Hours


async def replace_rules(db: Db, worker_no: SubjectNo, rules: Iterable[WeeklyRule]) -> None:
    await db.execute("DELETE FROM worker_rules WHERE subject_no = $1", worker_no)
    await db.executemany(
        """
        INSERT INTO worker_rules (subject_no, weekday, start_minute, end_minute, valid_from, valid_to)
        VALUES ($1, $2, $3, $4, $5, $6)
        """,
        [
            (worker_no, rule.weekday, rule.start_minute, rule.end_minute, rule.valid_from, rule.valid_to)
            for rule in rules
        ],
    )


async def read_rules(db: Db, worker_no: SubjectNo) -> list[WeeklyRule]:
    rows = await db.fetch(
        """
        SELECT weekday, start_minute, end_minute, valid_from, valid_to FROM worker_rules
        WHERE subject_no = $1 ORDER BY weekday, start_minute, valid_from NULLS FIRST
        """,
        worker_no,
    )
    return [WeeklyRule(**row) for row in rows]


async def replace_overrides(
    db: Db, worker_no: SubjectNo, days: Iterable[tuple[date, Collection[Minutes]]]
) -> None:
    await db.execute("DELETE FROM worker_overrides WHERE subject_no = $1", worker_no)
    await db.executemany(
        "INSERT INTO worker_overrides (subject_no, day, start_minute, end_minute) VALUES ($1, $2, $3, $4)",
        [(worker_no, day, *minutes) for day, shifts in days for minutes in (shifts or [(None, None)])],
    )


async def read_overrides(db: Db, worker_no: SubjectNo) -> dict[date, list[Minutes]]:
    rows = await db.fetch(
        """
        SELECT day, start_minute, end_minute FROM worker_overrides
        WHERE subject_no = $1 ORDER BY day, start_minute
        """,
        worker_no,
    )
    return by_day((row["day"], row["start_minute"], row["end_minute"]) for row in rows)


def by_day(overrides: Iterable[Override]) -> dict[date, list[Minutes]]:
    """The shifts of each day that has an override; none on a day off."""
    days: dict[date, list[Minutes]] = {}
    for day, start_minute, end_minute in overrides:
        shifts = days.setdefault(day, [])
        if start_minute is not None and end_minute is not None:
            shifts.append((start_minute, end_minute))
    return days


async def read_upcoming(db: Db, worker_no: SubjectNo, *, limit: int) -> list[tuple[AppointmentId, Span]]:
    """The worker's upcoming appointments, by start."""
    rows = await db.fetch(
        """
        SELECT id, starts_at, ends_at FROM appointments
        WHERE worker_no = $1 AND starts_at > clock_timestamp() AND status IN ('BOOKED', 'CONFIRMED')
        ORDER BY starts_at, id LIMIT $2
        """,
        worker_no,
        limit,
    )
    return [(row["id"], (to_seconds(row["starts_at"]), to_seconds(row["ends_at"]))) for row in rows]


# Rooms


async def insert_room(db: Db, room_id: SubjectId, *, name: str) -> Room:
    row = await db.fetchrow(
        f"INSERT INTO subjects (id, kind, name) VALUES ($1, 'room', $2) RETURNING {ROOM}",  # noqa: S608
        room_id,
        name,
    )
    assert row is not None
    return Room(**row)


async def update_room(db: Db, room_id: SubjectId, *, name: str, retired: bool) -> Room | None:
    row = await db.fetchrow(
        f"UPDATE subjects SET name = $2, retired = $3 WHERE id = $1 AND kind = 'room' RETURNING {ROOM}",  # noqa: S608
        room_id,
        name,
        retired,
    )
    return None if row is None else Room(**row)


async def read_room(db: Db, room_id: SubjectId) -> Room | None:
    row = await db.fetchrow(f"SELECT {ROOM} FROM subjects WHERE id = $1 AND kind = 'room'", room_id)  # noqa: S608
    return None if row is None else Room(**row)


async def find_rooms(db: Db, *, after: UUID | None, limit: int, retired: bool) -> list[Room]:
    rows = await db.fetch(
        f"""
        SELECT {ROOM} FROM subjects
        WHERE kind = 'room' AND (NOT retired OR $3) AND ($1::uuid IS NULL OR id > $1)
        ORDER BY id LIMIT $2
        """,  # noqa: S608
        after,
        limit,
        retired,
    )
    return [Room(**row) for row in rows]


# Services


async def insert_service(db: Db, service_id: ServiceId, terms: ServiceTerms) -> bool:
    """False if the id exists. Waits for a transaction that is inserting the same id."""
    inserted = await db.fetchval(
        f"""
        INSERT INTO services (id, {TERMS}) VALUES ($1, {_TERM_PARAMETERS})
        ON CONFLICT (id) DO NOTHING RETURNING true
        """,  # noqa: S608
        service_id,
        *_term_values(terms),
    )
    return inserted is not None


async def update_service(db: Db, service_id: ServiceId, terms: ServiceTerms) -> bool:
    updated = await db.fetchval(
        f"UPDATE services SET ({TERMS}) = ({_TERM_PARAMETERS}) WHERE id = $1 RETURNING true",  # noqa: S608
        service_id,
        *_term_values(terms),
    )
    return updated is not None


async def lock_service(db: Db, service_id: ServiceId) -> bool:
    """Lock the service's row until the transaction ends; False if there is none."""
    found = await db.fetchval("SELECT true FROM services WHERE id = $1 FOR NO KEY UPDATE", service_id)
    return found is not None


async def read_service(db: Db, service_id: ServiceId) -> Service | None:
    row = await db.fetchrow(f"SELECT id, {TERMS} FROM services WHERE id = $1", service_id)  # noqa: S608
    return None if row is None else service_of(row)


async def find_services(db: Db, *, after: UUID | None, limit: int, retired: bool) -> list[Service]:
    rows = await db.fetch(
        f"""
        SELECT id, {TERMS} FROM services
        WHERE (NOT retired OR $3) AND ($1::uuid IS NULL OR id > $1)
        ORDER BY id LIMIT $2
        """,  # noqa: S608
        after,
        limit,
        retired,
    )
    return [service_of(row) for row in rows]


def service_of(row: Row) -> Service:
    columns = dict(row)
    return Service(id=cast(ServiceId, columns.pop("id")), terms=ServiceTerms(**columns))


def _term_values(terms: ServiceTerms) -> list[object]:
    return [getattr(terms, name) for name in TERM_NAMES]


# Which worker does which service, in which rooms


async def replace_services(db: Db, worker_no: SubjectNo, service_ids: Sequence[ServiceId]) -> list[ServiceId]:
    """Set the worker's services; returns the ids that exist."""
    await db.execute("DELETE FROM service_subjects WHERE subject_no = $1", worker_no)
    rows = await db.fetch(
        """
        INSERT INTO service_subjects (service_id, subject_no, kind)
        SELECT id, $1, 'worker' FROM services WHERE id = ANY ($2::uuid[]) ORDER BY id
        RETURNING service_id
        """,
        worker_no,
        service_ids,
    )
    return [row["service_id"] for row in rows]


async def read_services_of(db: Db, worker_no: SubjectNo) -> list[ServiceId]:
    rows = await db.fetch(
        "SELECT service_id FROM service_subjects WHERE subject_no = $1 ORDER BY service_id", worker_no
    )
    return [row["service_id"] for row in rows]


async def replace_rooms(db: Db, service_id: ServiceId, room_ids: Sequence[SubjectId]) -> list[SubjectId]:
    """Set the service's rooms; returns the ids that are rooms."""
    await db.execute("DELETE FROM service_subjects WHERE service_id = $1 AND kind = 'room'", service_id)
    rows = await db.fetch(
        """
        WITH room AS (SELECT no, id FROM subjects WHERE id = ANY ($2::uuid[]) AND kind = 'room'),
        added AS (INSERT INTO service_subjects (service_id, subject_no, kind) SELECT $1, no, 'room' FROM room)
        SELECT id FROM room ORDER BY id
        """,
        service_id,
        room_ids,
    )
    return [row["id"] for row in rows]


async def read_rooms_of(db: Db, service_id: ServiceId) -> list[SubjectId]:
    rows = await db.fetch(
        """
        SELECT s.id FROM service_subjects JOIN subjects s ON s.no = subject_no
        WHERE service_id = $1 AND service_subjects.kind = 'room' ORDER BY s.id
        """,
        service_id,
    )
    return [row["id"] for row in rows]
