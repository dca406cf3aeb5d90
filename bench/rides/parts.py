"""Profile of the API during accepts: `python -m bench --only accept --parts`.

The server has one additional route. A timer that runs only while the process works interrupts it, and the
current function is counted. Python handles a signal between two bytecodes, so time in C code, such as socket
calls, counts for the next function. Work of other processes is not included.
"""

import asyncio
import json
import signal
import urllib.request
from collections import Counter
from functools import cache
from pathlib import Path
from time import process_time
from types import FrameType

import uvloop
from rich.table import Table

from bench.rides.accepts import AcceptLoad
from catraca.platform.http.route import make_router
from catraca.platform.telemetry import configure_logging
from catraca.roles.api import Api
from catraca.roles.parts import open_parts
from catraca.roles.runner import Life, run_roles
from catraca.settings import Settings, read_settings

EVERY_SECONDS = 0.004
AUTHENTICATION = "authentication and account lookup"
# A sample counts for the innermost function whose file is listed here; authentication includes its callees.
FILES = {
    AUTHENTICATION: ("platform/auth", "roles/api/authentication"),
    "Redis: rate limits": ("/redis/", "platform/redis_client", "http/rate_limits", "/limits/"),
    "database": ("/asyncpg/", "platform/database/", "/store"),
    "HTTP": ("/uvicorn/", "/starlette/", "/fastapi/", "/pydantic", "platform/http/", "/routes", "/schemas"),
    "decision and events": (
        "domains/rides/",
        "catraca/events",
        "platform/event",
        "platform/gather",
    ),
    "metrics and logs": ("/prometheus_client/", "/structlog/", "platform/telemetry"),
}


class Sampler:
    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._since_seconds = process_time()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)

    def _look(self, _: int, frame: FrameType | None) -> None:
        parts: list[str] = []
        while frame is not None:
            if part := _part_of(frame.f_code.co_filename):
                parts.append(part)
            frame = frame.f_back
        part = AUTHENTICATION if AUTHENTICATION in parts else next(iter(parts), "the event loop")
        self._seen[part] += 1

    def take(self) -> dict[str, float]:
        """Return the seconds of work in each part since the last call."""
        since, self._since_seconds = self._since_seconds, process_time()
        seen, self._seen = self._seen, Counter()
        worked = self._since_seconds - since
        return {part: times / seen.total() * worked for part, times in seen.most_common()}


@cache
def _part_of(file: str) -> str | None:
    return next((part for part, names in FILES.items() if any(name in file for name in names)), None)


def parts_table(load: AcceptLoad, *, seconds: int, connections: int, folder: Path) -> Table:
    """Accept rides for `seconds`, and return the profile of the server."""
    load.per_second(seconds=1, connections=connections, folder=folder)  # the first ones are slower
    _ask(load.url)
    rate = load.per_second(seconds=seconds, connections=connections, folder=folder)
    spent = _ask(load.url)
    worked = sum(spent.values())
    table = Table(
        title=f"Work of the API process at {rate:,.0f} accepts a second, {worked / seconds:.0%} busy"
    )
    table.add_column("part")
    table.add_column("share", justify="right")
    table.add_column("microseconds an accept", justify="right")
    for part, part_seconds in spent.items():
        microseconds = part_seconds / (rate * seconds) * 1_000_000
        table.add_row(part, f"{part_seconds / worked:.0%}", f"{microseconds:,.0f}")
    return table


def _ask(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/parts", timeout=10) as answer:
        return json.load(answer)


async def serve(settings: Settings) -> None:
    life = Life()
    life.handle_signals()
    sampler, router = Sampler(), make_router()

    @router.get("/parts")
    async def read_parts() -> dict[str, float]:
        return sampler.take()

    async with open_parts(settings) as parts:
        sampler.start()
        await run_roles([Api(parts, [router])], life)


if __name__ == "__main__":
    configure_logging("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(read_settings()))
