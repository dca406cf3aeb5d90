"""The soak: `make prove soak`."""

import asyncio
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import asyncpg

from bench.live.costs import resident_bytes
from bench.live.listeners import Listeners
from bench.location.world import put_online
from bench.pace import send_paced
from bench.rides.world import PASSENGER, numbered_id
from catraca.platform.auth import sign_token
from tests.conftest import SECRET
from tests.servers import until
from tests.storms.fleet import StormFleet
from tests.storms.servers import messages_left
from tests.storms.soak.requests import DRIVERS, Requests

WHOLE_SECONDS = 30 * 60
FULL_SPEED_SECONDS = 20
# A minute each at full size.
WINDOWS = 30
BATCH = 1000
CONNECTIONS = 16
SOCKETS = 100
DRAIN_SECONDS = 60
# Of the medians of the last third, compared with those of the second third; the first third warms up.
MEMORY_GROWTH = 1.05
MORE_FILES = 16
SLOWDOWN = 2.0


@dataclass(frozen=True, slots=True)
class Window:
    """One thirtieth of a soak: latency in milliseconds, and megabytes and open files by process."""

    answers: int
    median: float
    p99: float
    megabytes: Mapping[str, float]
    files: Mapping[str, int]


async def soak(here: StormFleet, *, share: float, judges_latency: bool = True) -> str:
    """Load the APIs with half of what they can bear; raise AssertionError if something grows.

    Returns the rate and a table of the windows; the error has it as a note.
    """
    url = here.office.environment["CATRACA_DATABASE_URL"]
    await put_online(url, here.redis.url, DRIVERS)
    db = await asyncpg.connect(url)
    try:
        # PostgreSQL's default; the servers of tests are vacuumed by hand.
        await db.execute("ALTER SYSTEM SET autovacuum_naptime = '1min'")
        await db.execute("SELECT pg_reload_conf()")
        requests = Requests(db, SECRET)
        rate = await _full_rate(here, requests, seconds=FULL_SPEED_SECONDS * share) / 2
        with _sockets(here) as sockets:
            await asyncio.to_thread(sockets.until_ready)
            windows = await _load(here, requests, rate, seconds=WHOLE_SECONDS / WINDOWS * share)
    finally:
        await db.close()
    report = f"{rate:,.0f} requests a second\n{_table(windows)}"
    wrong = [*growth_of(windows, judges_latency=judges_latency), *here.office.complaints().splitlines()]
    if wrong:
        error = AssertionError("\n".join(wrong))
        error.add_note(report)
        raise error

    async def is_drained() -> bool:
        return not await messages_left(here.bus)

    await until(is_drained, seconds=DRAIN_SECONDS)
    return report


def growth_of(windows: Sequence[Window], *, judges_latency: bool = True) -> list[str]:
    """Return what grew between the second and the last third of the windows."""
    third = len(windows) // 3
    before, after = windows[third:-third], windows[-third:]
    grown: list[str] = []
    for name in windows[0].megabytes:
        was, now = (statistics.median(one.megabytes[name] for one in part) for part in (before, after))
        if now > was * MEMORY_GROWTH:
            grown.append(f"memory of {name} grew from {was:.1f} to {now:.1f} MB")
        was, now = (statistics.median(one.files[name] for one in part) for part in (before, after))
        if now > was + MORE_FILES:
            grown.append(f"open files of {name} grew from {was:.0f} to {now:.0f}")
    was, now = (statistics.median(one.p99 for one in part) for part in (before, after))
    if judges_latency and now > was * SLOWDOWN:
        grown.append(f"p99 grew from {was:.1f} to {now:.1f} ms")
    return grown


def _table(windows: Sequence[Window]) -> str:
    """One line per window, in columns of ten characters."""
    names = list(windows[0].megabytes)
    lines = [["answers", "p50 ms", "p99 ms", *(f"{name} MB" for name in names), *["files"] * len(names)]]
    for one in windows:
        megabytes = [f"{megabytes:.1f}" for megabytes in one.megabytes.values()]
        files = [str(count) for count in one.files.values()]
        lines.append([f"{one.answers:,}", f"{one.median:.1f}", f"{one.p99:.1f}", *megabytes, *files])
    return "\n".join("".join(f"{cell:>10}" for cell in line) for line in lines)


@contextmanager
def _sockets(here: StormFleet) -> Iterator[Listeners]:
    """Sockets of the passengers of the first rides, which stay idle."""
    tokens = [
        sign_token(
            SECRET,
            subject=numbered_id(PASSENGER, number),
            roles=["passenger"],
            lifetime=timedelta(days=1),
        )
        for number in range(1, SOCKETS + 1)
    ]
    listeners = Listeners([f"http://127.0.0.1:{port}/v1/ws" for port in here.ports], tokens, each=0)
    try:
        yield listeners
    finally:
        listeners.end()


async def _full_rate(here: StormFleet, requests: Requests, *, seconds: float) -> float:
    """Send as fast as the APIs answer; returns answers per second."""
    answers, spent = 0, 0.0
    while spent < seconds:
        prepared = await requests.prepare(BATCH)
        began = perf_counter()
        answers += len(await _send(here, prepared, per_second=float("inf")))
        spent += perf_counter() - began
    return answers / spent


async def _load(here: StormFleet, requests: Requests, rate: float, *, seconds: float) -> list[Window]:
    windows: list[Window] = []
    count = max(1, round(rate * seconds))
    prepared = await requests.prepare(count)
    for _ in range(WINDOWS):
        # The rows of the next window are inserted meanwhile.
        waited, prepared = await asyncio.gather(
            _send(here, prepared, per_second=rate), requests.prepare(count)
        )
        windows.append(_window(sorted(waited), _processes(here)))
    return windows


def _window(waited: Sequence[float], processes: Mapping[str, int]) -> Window:
    return Window(
        len(waited),
        waited[len(waited) // 2] * 1000,
        waited[len(waited) * 99 // 100] * 1000,
        {name: resident_bytes(pid) / 1e6 for name, pid in processes.items()},
        {name: len(list(Path(f"/proc/{pid}/fd").iterdir())) for name, pid in processes.items()},
    )


async def _send(here: StormFleet, requests: Iterator[bytes], *, per_second: float) -> list[float]:
    """Send to all APIs at once; returns the seconds from the time each request was due."""
    waited: list[float] = []
    await asyncio.gather(
        *(
            send_paced(
                f"http://127.0.0.1:{port}",
                requests,
                lambda due_at, _: waited.append(perf_counter() - due_at),
                per_second=per_second / len(here.ports),
                connections=CONNECTIONS,
                status=None,
            )
            for port in here.ports
        )
    )
    return waited


def _processes(here: StormFleet) -> dict[str, int]:
    apis = {f"API {number}": api.pid for number, api in enumerate(here.apis, 1)}
    return apis | {"roles": here.office.processes[0].pid}
