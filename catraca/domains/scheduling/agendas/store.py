"""Statements on workers and their hours."""

from collections.abc import Collection, Iterable
from datetime import date
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.calendar_math.holidays import Holidays
from catraca.domains.scheduling.calendar_math.hours import Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import Span
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db, Row

# A day and a shift's minutes; without minutes: a day off.
Override = tuple[date, int | None, int | None]

WORKER = "s.no, s.id, s.name, s.time_zone, s.user_id, s.holidays_country, s.holidays_state, s.retired"


# Workers


async def insert_worker(
    db: Db,
    worker_id: SubjectId,
    *,
    name: str,
    time_zone: str,
    user_id: UserId | None,
    holidays: Holidays | None,
) -> Worker | None:
    """None if the account belongs to another worker."""
    row = await db.fetchrow(
        f"""
        INSERT INTO subjects AS s (id, kind, name, time_zone, user_id, holidays_country, holidays_state)
        VALUES ($1, 'worker', $2, $3, $4, $5, $6)
        ON CONFLICT (user_id) DO NOTHING
        RETURNING {WORKER}
        """,  # noqa: S608
        worker_id,
        name,
        time_zone,
        user_id,
        holidays and holidays.country,
        holidays and holidays.state,
    )
    return None if row is None else worker_of(row)


async def update_worker(
    db: Db, worker_no: SubjectNo, *, name: str, time_zone: str, holidays: Holidays | None, retired: bool
) -> Worker:
    row = await db.fetchrow(
        f"""
        UPDATE subjects AS s
        SET name = $2, time_zone = $3, holidays_country = $4, holidays_state = $5, retired = $6
        WHERE no = $1
        RETURNING {WORKER}
        """,  # noqa: S608
        worker_no,
        name,
        time_zone,
        holidays and holidays.country,
        holidays and holidays.state,
        retired,
    )
    assert row is not None
    return worker_of(row)


async def read_worker(db: Db, worker_id: SubjectId) -> Worker | None:
    row = await db.fetchrow(
        f"SELECT {WORKER} FROM subjects s WHERE id = $1 AND kind = 'worker'",  # noqa: S608
        worker_id,
    )
    return None if row is None else worker_of(row)


async def lock_worker(db: Db, worker_id: SubjectId) -> Worker | None:
    """As `read_worker`, with the worker's row locked until the transaction ends."""
    row = await db.fetchrow(
        f"SELECT {WORKER} FROM subjects s WHERE id = $1 AND kind = 'worker' FOR NO KEY UPDATE",  # noqa: S608
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
            OR EXISTS (SELECT FROM service_subjects WHERE service_id = $1 AND subject_no = s.no))
        ORDER BY id LIMIT $3
        """,  # noqa: S608
        service_id,
        after,
        limit,
        retired,
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
