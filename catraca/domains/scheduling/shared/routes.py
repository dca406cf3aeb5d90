"""Queues per worker and service, the cost of requests, and query parameters that several routes take.

Changes of one worker's agenda wait for each other in a queue, before they take a database connection; so do
bookings with any worker of one service. Queues only save connections: row locks and constraints decide.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Depends, Query, Request

from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import zone_names
from catraca.domains.scheduling.errors import TimeZoneUnknown
from catraca.domains.scheduling.shared.model import BookingRules, SubjectId, queue_key
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


# The key of a queue; None: the request does not wait.
FindQueue = Callable[[Request, Database], Awaitable[str | None]]
_find_parts = wired(SchedulingParts)
Parts = Annotated[SchedulingParts, Depends(_find_parts)]


def _queue(find_queue: FindQueue) -> Around:
    @asynccontextmanager
    async def enter(request: Request) -> AsyncGenerator[None]:
        parts = await _find_parts(request)
        key = await find_queue(request, parts.database)
        if key is None:
            yield
            return
        async with parts.queues.enter(key):
            yield

    return enter


async def _worker_in_path(request: Request, database: Database) -> str | None:
    return queue_key(None, request.path_params["worker_id"])


async def _requested_worker(request: Request, database: Database) -> str | None:
    """None if the ids are not valid, which the route refuses later."""
    body = await body_of(request)
    service_id, worker_id = body.get("service_id"), body.get("worker_id")
    try:
        return queue_key(UUID(str(service_id)), None if worker_id is None else UUID(str(worker_id)))
    except ValueError:
        return None


async def body_of(request: Request) -> dict[str, Any]:
    """The body before it was validated; empty if it is not an object, which the route refuses later."""
    body: Any = await request.json() if await request.body() else None
    return cast(dict[str, Any], body) if isinstance(body, dict) else {}


def queue_of(path_parameter: str, find_worker_id: Callable[[Db, UUID], Awaitable[UUID | None]]) -> Around:
    """The queue of the worker to whom the row with the id in the path belongs."""

    async def find(request: Request, database: Database) -> str | None:
        async with database.connection() as db:
            worker_id = await find_worker_id(db, UUID(str(request.path_params[path_parameter])))
        return None if worker_id is None else queue_key(None, worker_id)

    return _queue(find)


worker_queue = _queue(_worker_in_path)
"""The queue of the worker in the path."""
requested_worker_queue = _queue(_requested_worker)
"""The queue of the worker in the body; of the service, if the body names no worker."""


# Costs

# A search in the agendas of all workers reads about so many times as much as in one.
WORKERS_COUNTED = 4
DAYS_A_REQUEST = 8


def search_cost(days: float, *, any_worker: bool) -> int:
    """How many requests a search for free time counts as."""
    return 1 + int(days * (WORKERS_COUNTED if any_worker else 1)) // DAYS_A_REQUEST


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
