"""The server under measure: the real API with no-op routes added, or raw ASGI with the same answer.

`python -m bench.server full [ROUTES]`, or `python -m bench.server raw`.
"""

import asyncio
import gc
import sys
import tempfile
from os import environ
from typing import Any

environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import uvicorn
import uvloop
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from catraca.cli import OBJECTS_BETWEEN_COLLECTIONS
from catraca.platform.http.caller import Caller
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router
from catraca.platform.telemetry import configure_logging
from catraca.roles.api import ROUTERS, Api
from catraca.roles.parts import open_parts
from catraca.roles.runner import Life, run_roles, settle_memory
from catraca.settings import Settings, read_settings


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ok: bool = True


guarded = make_router()
keyed = make_router(route_class=UnitOfWork)


@guarded.get("/noop")
async def guarded_noop(caller: Caller) -> Nothing:
    return Nothing()


@guarded.post("/noop/open")
async def open_noop(body: Nothing) -> Nothing:
    return body


@keyed.post("/noop")
async def keyed_noop(body: Nothing, db: OpenDb, caller: Caller) -> Nothing:
    return body


async def answer_raw(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] == "POST":
        await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"11")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"ok":true}'})


def serve_raw(port: int) -> None:
    uvicorn.run(
        answer_raw,
        port=port,
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_level="warning",
        access_log=False,
    )


def some_routers(routes: int) -> list[APIRouter]:
    """Return the first routers that have at least this many routes together."""
    chosen: list[APIRouter] = []
    while sum(len(router.routes) for router in chosen) < routes:
        chosen.append(ROUTERS[len(chosen)])
    return chosen


async def serve_full(settings: Settings, routers: list[APIRouter]) -> None:
    life = Life()
    life.handle_signals()
    async with open_parts(settings) as parts:
        settle_memory()
        await run_roles([Api(parts, [guarded, keyed], routers=routers)], life)


if __name__ == "__main__":
    settings, (_, kind, *routes) = read_settings(), sys.argv
    if kind == "raw":
        serve_raw(settings.process.port)
    else:
        configure_logging("warning")
        # As in every serving process.
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_full(settings, some_routers(int(routes[0])) if routes else ROUTERS))
