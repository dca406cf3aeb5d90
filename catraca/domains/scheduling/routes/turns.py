"""Whoever wants to write to the same agenda waits in line for it before taking a connection."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request

from catraca.domains.scheduling.service.booking import BookingRules
from catraca.domains.scheduling.store.appointments import read_appointment
from catraca.domains.scheduling.store.series import worker_of_series
from catraca.platform.database import Database
from catraca.platform.http.route import wired
from catraca.platform.key_queues import KeyQueues


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingParts:
    """What the API's role hands to these routes."""

    turns: KeyQueues
    rules: BookingRules


Parts = Annotated[SchedulingParts, Depends(wired(SchedulingParts))]


def turn_key(subject_id: UUID) -> str:
    return f"lock:worker:{subject_id}"


@asynccontextmanager
async def in_line(request: Request) -> AsyncGenerator[None]:
    """A turn at the agenda that the path or the body names; at nobody's in particular without one."""
    worker_id = await _worker_id(request)
    if worker_id is None:
        yield
        return
    parts: SchedulingParts = request.app.state.wired[SchedulingParts]
    async with parts.turns.enter(turn_key(worker_id)):
        yield


async def _worker_id(request: Request) -> UUID | None:
    path = request.path_params
    if "worker_id" in path:
        return _uuid(path["worker_id"])
    if (appointment_id := _uuid(path.get("appointment_id") or path.get("hold_id"))) is not None:
        database: Database = request.app.state.database
        async with database.connection() as db:
            found = await read_appointment(db, appointment_id)
        return found and found.worker_id
    if "series_id" in path and (series_id := _uuid(path["series_id"])) is not None:
        database = request.app.state.database
        async with database.connection() as db:
            return await worker_of_series(db, series_id)
    # What is wrong with a body is told later, when it is read as a whole.
    body: Any = await request.json() if await request.body() else None
    return _uuid(body.get("worker_id")) if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None
