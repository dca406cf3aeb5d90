"""Races in a fixed order: one transaction by hand, a request that waits for it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import BookingRequest, Client
from catraca.domains.scheduling.booking import service as booking
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import (
    AppointmentId,
    BookingRules,
    ClientLimits,
    ServiceId,
    SubjectId,
)
from catraca.platform.database import Db
from tests.domains.scheduling.clinic import Clinic, moment
from tests.servers import until

T = TypeVar("T")
RULES = BookingRules(
    reminder=timedelta(hours=1),
    hold_ttl=timedelta(minutes=5),
    max_holds=3,
    limits=ClientLimits(upcoming=20, in_series=12),
)
WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def event_names(clinic: Clinic, appointment_id: object) -> list[str]:
    """The names of an appointment's events in order, such as `booked` and `canceled`."""
    rows = await clinic.sql(
        "SELECT routing_key, seq FROM outbox WHERE aggregate_id = $1 UNION ALL"
        " SELECT routing_key, seq FROM outbox_sent WHERE aggregate_id = $1 ORDER BY seq",
        UUID(str(appointment_id)),
    )
    return [row["routing_key"].removeprefix("appointment.") for row in rows]


@asynccontextmanager
async def by_hand(clinic: Clinic) -> AsyncIterator[Db]:
    """A transaction that commits when the block ends."""
    async with clinic.parts.database.transaction() as db:
        yield db


def wish_for(
    clinic: Clinic, clock: str, *, service_id: UUID | None = None, worker_id: UUID | None = None
) -> BookingRequest:
    return BookingRequest(
        service_id=ServiceId(service_id or clinic.service_id),
        worker_id=SubjectId(worker_id or clinic.worker_id),
        starts=to_seconds(moment(clinic.at(clock))),
    )


async def book_with(db: Db, clinic: Clinic, client: UUID, clock: str, hold_id: UUID) -> None:
    """Book a hold like the route does."""
    hold = AppointmentId(hold_id)
    booked_for = Client(id=UserId(client))
    booked = await booking.book(db, wish_for(clinic, clock), booked_for, rules=RULES, hold_id=hold)
    assert booked.id == hold_id


async def lock_worker(db: Db, worker_id: UUID) -> None:
    """Lock the worker's row as every writer of the agenda does."""
    await db.execute("SELECT FROM subjects WHERE id = $1 FOR NO KEY UPDATE", worker_id)


async def started(clinic: Clinic, request: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Start a request and wait until it has ended or waits for a lock."""
    task = asyncio.create_task(request)

    async def is_stuck_or_done() -> bool:
        return task.done() or bool(await clinic.sql(WAITING))

    await until(is_stuck_or_done)
    return task


async def until_blocked_by(clinic: Clinic, db: Db, task: "asyncio.Future[Any]") -> None:
    """Wait until the request is blocked by this transaction, or has ended."""
    pid = await db.fetchval("SELECT pg_backend_pid()")

    async def is_blocked_or_done() -> bool:
        blocked = "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
        return task.done() or bool(await clinic.sql(blocked, pid))

    await until(is_blocked_or_done)


async def claims_of(clinic: Clinic, subject_id: UUID) -> list[Any]:
    """The claims of a worker or a room."""
    rows = await clinic.sql(
        "SELECT c.* FROM claims c JOIN subjects s ON s.no = c.subject_no WHERE s.id = $1"
        " ORDER BY c.starts_at",
        subject_id,
    )
    return list(rows)
