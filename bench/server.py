"""The server under measure: the real API with no-op routes added, or the same routes bare."""

import asyncio
import sys
import tempfile
from os import environ

environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from catraca.platform.http.caller import Caller
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router
from catraca.platform.telemetry import configure_logging
from catraca.roles.api import Api
from catraca.roles.parts import open_parts
from catraca.roles.runner import Life, run_roles
from catraca.settings import Settings, read_settings


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ok: bool = True


bare = make_router()
guarded = make_router()
keyed = make_router(route_class=UnitOfWork)


@bare.get("/noop")
async def bare_noop() -> Nothing:
    return Nothing()


@bare.post("/noop")
async def bare_noop_with_body(body: Nothing) -> Nothing:
    return body


@guarded.get("/noop")
async def guarded_noop(caller: Caller) -> Nothing:
    return Nothing()


@guarded.post("/noop/open")
async def open_noop(body: Nothing) -> Nothing:
    return body


@keyed.post("/noop")
async def keyed_noop(body: Nothing, db: OpenDb, caller: Caller) -> Nothing:
    return body


def serve_bare(port: int) -> None:
    app = FastAPI()
    app.include_router(bare)
    uvicorn.run(app, port=port, http="httptools", loop="uvloop", log_level="warning", access_log=False)


async def serve_full(settings: Settings) -> None:
    life = Life()
    life.handle_signals()
    async with open_parts(settings) as parts:
        await run_roles([Api(parts, [guarded, keyed])], life)


if __name__ == "__main__":
    settings = read_settings()
    if sys.argv[1] == "bare":
        serve_bare(settings.process.port)
    else:
        configure_logging("warning")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_full(settings))
