"""Statements on services and rooms."""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from catraca.domains.scheduling.catalog.model import Room, Service, ServiceTerms
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db, Row

ROOM = "no, id, name, retired"
TERMS = (
    "name, duration_minutes, buffer_before_minutes, buffer_after_minutes, min_notice_minutes, horizon_days,"
    " slot_step_minutes, capacity, retired"
)
TERM_NAMES = TERMS.split(", ")
_TERM_PARAMETERS = ", ".join(f"${place}" for place in range(2, len(TERM_NAMES) + 2))


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
        INSERT INTO service_subjects (service_id, subject_no)
        SELECT id, $1 FROM services WHERE id = ANY ($2::uuid[]) ORDER BY id
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
    await db.execute(
        """
        DELETE FROM service_subjects USING subjects s
        WHERE service_id = $1 AND s.no = subject_no AND s.kind = 'room'
        """,
        service_id,
    )
    rows = await db.fetch(
        """
        WITH room AS (SELECT no, id FROM subjects WHERE id = ANY ($2::uuid[]) AND kind = 'room'),
        added AS (INSERT INTO service_subjects (service_id, subject_no) SELECT $1, no FROM room)
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
        WHERE service_id = $1 AND s.kind = 'room' ORDER BY s.id
        """,
        service_id,
    )
    return [row["id"] for row in rows]
