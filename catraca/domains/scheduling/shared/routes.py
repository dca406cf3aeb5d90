"""Queues per worker, and query parameters that several routes take.

Changes of one worker's agenda wait for each other in a queue, before they take a database connection. Queues
only save connections: row locks and constraints decide.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request

from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import zone_names
from catraca.domains.scheduling.errors import TimeZoneUnknown
from catraca.domains.scheduling.shared.model import BookingRules, SubjectId
from catraca.platform.database import Database, Db
from catraca.platform.http.route import Around, wired
from catraca.platform.key_queues import KeyQueues

TAGS: list[str | Enum] = ["scheduling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingParts:
    """Given by the API role to the routes of scheduling."""

    database: Database
    queues: KeyQueues
    rules: BookingRules


FindWorker = Callable[[Request, Database], Awaitable[UUID | None]]
_find_parts = wired(SchedulingParts)
Parts = Annotated[SchedulingParts, Depends(_find_parts)]


def _queue(find_worker: FindWorker) -> Around:
    @asynccontextmanager
    async def enter(request: Request) -> AsyncGenerator[None]:
        parts = await _find_parts(request)
        worker_id = await find_worker(request, parts.database)
        if worker_id is None:
            yield
            return
        async with parts.queues.enter(f"lock:worker:{worker_id}"):
            yield

    return enter


async def _worker_in_path(request: Request, database: Database) -> UUID | None:
    return _uuid(request.path_params["worker_id"])


async def _worker_in_body(request: Request, database: Database) -> UUID | None:
    # A body that is not valid is refused later, when the route parses it.
    body: Any = await request.json() if await request.body() else None
    return _uuid(body.get("worker_id")) if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def queue_of(path_parameter: str, find_worker_id: Callable[[Db, UUID], Awaitable[UUID | None]]) -> Around:
    """The queue of the worker to whom the row with the id in the path belongs."""

    async def find(request: Request, database: Database) -> UUID | None:
        async with database.connection() as db:
            return await find_worker_id(db, UUID(str(request.path_params[path_parameter])))

    return _queue(find)


worker_queue = _queue(_worker_in_path)
"""The queue of the worker in the path."""
requested_worker_queue = _queue(_worker_in_body)
"""The queue of the worker in the body; none if the body names no worker."""


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


# Query parameters

TIME_CURSOR = r"^\d{1,11}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
TimeCursor = Annotated[str | None, Query(pattern=TIME_CURSOR, description="The previous page's `next`.")]
Retired = Annotated[bool, Query(description="Include retired ones.")]


def read_cursor(cursor: str) -> tuple[Seconds, SubjectId]:
    """The start and the id of the last item of the previous page."""
    moment, own_id = cursor.split(".")
    return int(moment), SubjectId(UUID(own_id))


async def _known_zone(
    time_zone: Annotated[
        str | None, Query(max_length=64, description="Times in the answer are in this zone. Default: UTC.")
    ] = None,
) -> str | None:
    if time_zone is not None and time_zone not in zone_names():
        raise TimeZoneUnknown
    return time_zone


InZone = Annotated[str | None, Depends(_known_zone)]
