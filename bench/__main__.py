"""Run the benchmarks: `python -m bench [--rounds N] [--seconds N] [--json FILE]`."""

import argparse
import asyncio
import shutil
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.events.load import (
    KEPT_FEW,
    KEPT_MANY,
    latency_milliseconds,
    run,
    timer_lateness_milliseconds,
)
from bench.events.timers import PENDING
from bench.geofences.fences import FENCES, loading_milliseconds
from bench.geofences.requests import LandPlace, WishLoad
from bench.geofences.world import settle_land
from bench.live.loads import BroadcastLoad, DeliveryLoad
from bench.live.tables import live_delays, memory_table, open_live, stage_table
from bench.location.nearby import FEW_DRIVERS, MANY_DRIVERS, NearbyLoad
from bench.location.world import put_online
from bench.matching.fixtures import FEW_OPEN, MANY_OPEN, fill
from bench.matching.pace import A_SECOND, offer_milliseconds
from bench.processor import take_noted
from bench.report import Delay, Result, Round, report
from bench.rides.accepts import AcceptLoad
from bench.rides.pace import accept_milliseconds
from bench.rides.parts import parts_table
from bench.rows import (
    ACCEPT_ROW,
    COMMUNITY_ROWS,
    FENCE_ROW,
    LIVE_ROW,
    MANY_PEOPLE_ROW,
    MATCH_ROW,
    NEARBY_ROW,
    RELAY_ROW,
    SLOT_ROW,
    Row,
    Servers,
    rows,
)
from bench.scheduling.booking import SlotCrowdLoad
from bench.scheduling.fairness import WANT_MS, fairness_table, measure_fairness
from bench.scheduling.fairness import is_asked_for as is_fairness_asked_for
from bench.scheduling.free import MOST_WORKERS, free_milliseconds, is_asked_for
from bench.server_processes import SECRET, serve
from bench.sign_ups.load import FEW_ROWS, MANY_ROWS
from bench.sign_ups.load import run as run_sign_ups
from catraca.platform.auth import sign_token
from catraca.platform.database.migrations import migrate
from tests.rabbitmq import RabbitMq
from tests.servers import Stack, private_folder, start_embedded, until

CONNECTIONS = 32
FREE_WANT_MS = 50
NO_REDIS_URL = "unix:///nowhere/redis.sock"
OFFER_DELAY = f"ride requested to offer committed, {A_SECOND} a second"


async def main() -> None:
    options = _options()
    folder = private_folder()
    stack, stop = await start_embedded(folder)
    try:
        await migrate(stack.database_url)
        broker = RabbitMq(folder / "rabbitmq")
        broker.start()
        await until(broker.answers)
        with ExitStack() as running:
            servers = await _start_servers(stack, broker, running, options.only)
            chosen = [row for row in rows(servers) if options.only in row.name]
            # In a thread: some loads run an event loop of their own.
            results = await asyncio.to_thread(_measure, chosen, options, folder)
            delays = _measure_delays(servers) if options.only in "latency" else []
            delays += await asyncio.to_thread(_measure_accepts, servers, results)
            delays += _nearby_delays(chosen)
            delays += _slot_delays(chosen)
            delays += await asyncio.to_thread(_measure_communities, chosen, results)
            delays += await _offer_delays(stack, broker, options.only)
            delays += await _free_delays(stack, options.only)
            tables = [await _measure_parts(stack, running, options, folder)] if options.parts else []
            tables += await _measure_live(stack, chosen, delays)
            tables += await _measure_fairness(servers, options.only, delays)
        await broker.stop()
    finally:
        await stop()
        shutil.rmtree(folder, ignore_errors=True)
    report(results, delays, options, connections=CONNECTIONS)
    for table in tables:
        Console(width=140).print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Ratios taken in one run.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each pair is measured")
    parser.add_argument("--seconds", type=int, default=3, help="how long each measurement takes")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows whose name has these words")
    parser.add_argument("--parts", action="store_true", help="also tell where the time of an accept goes")
    parser.add_argument("--json", type=Path, default=Path("var/bench.json"), help="where the figures go")
    return parser.parse_args()


async def _start_servers(stack: Stack, broker: RabbitMq, running: ExitStack, only: str) -> Servers:
    bare, full = (serve(stack, running, "bench.server", kind) for kind in ("bare", "full"))
    on_rabbitmq = serve(stack, running, "bench.server", "full", CATRACA_AMQP_URL=broker.url)
    for server in (bare, full, on_rabbitmq):
        await until(server.answers)
    token = sign_token(SECRET, subject=uuid4(), roles=["passenger"], lifetime=timedelta(hours=6))
    return Servers(
        bare_url=bare.url,
        full_url=full.url,
        token=token,
        database_url=await _event_database(stack, kept=0),
        amqp_url=broker.url,
        few_kept_url=await _event_database(stack, kept=KEPT_FEW),
        # Filling these databases takes a minute or two, so it is done only if they are measured.
        many_kept_url=await _event_database(stack, kept=KEPT_MANY) if only in RELAY_ROW else "",
        full_on_rabbitmq_url=on_rabbitmq.url,
        few_people_url=await _people_database(stack, FEW_ROWS),
        many_people_url=await _people_database(stack, MANY_ROWS) if only in MANY_PEOPLE_ROW else "",
        full_database_url=stack.database_url,
        secret=SECRET,
        redis_url=stack.redis_url,
        few_drivers_url=await _drivers_server(stack, running, FEW_DRIVERS, 1) if only in NEARBY_ROW else "",
        many_drivers_url=await _drivers_server(stack, running, MANY_DRIVERS, 2) if only in NEARBY_ROW else "",
        few_open=await _open_rides(stack, FEW_OPEN, 3) if only in MATCH_ROW else ("", ""),
        many_open=await _open_rides(stack, MANY_OPEN, 4) if only in MATCH_ROW else ("", ""),
        live=await open_live(stack, running) if only in LIVE_ROW else None,
        land=await _land(stack, running, 7) if any(only in row for row in COMMUNITY_ROWS) else None,
        without_redis_url=await _own_server(stack, running, stack.database_url, NO_REDIS_URL)
        if only in SLOT_ROW
        else "",
    )


async def _land(stack: Stack, running: ExitStack, redis_number: int) -> LandPlace:
    """A server with thousands of communities; drivers are near, but no community has its own."""
    database_url = await stack.new_database("communities")
    redis_url = stack.redis_url.replace("db=0", f"db={redis_number}")
    await migrate(database_url)
    await settle_land(database_url, redis_url)
    place = LandPlace(await _own_server(stack, running, database_url, redis_url), database_url, SECRET)
    # The first requests wait until all fences are loaded.
    await asyncio.to_thread(WishLoad("ask", place).milliseconds, per_second=1)
    return place


async def _drivers_server(stack: Stack, running: ExitStack, drivers: int, redis_number: int) -> str:
    """A server with this many drivers online, on its own database and Redis."""
    database_url = await stack.new_database(f"drivers_{drivers}")
    redis_url = stack.redis_url.replace("db=0", f"db={redis_number}")
    await migrate(database_url)
    await put_online(database_url, redis_url, drivers)
    return await _own_server(stack, running, database_url, redis_url)


async def _own_server(stack: Stack, running: ExitStack, database_url: str, redis_url: str) -> str:
    server = serve(
        stack,
        running,
        "bench.server",
        "full",
        CATRACA_DATABASE_URL=database_url,
        CATRACA_REDIS_URL=redis_url,
        # The drivers send no more pings, and must stay online.
        CATRACA_PRESENCE_TIMEOUT="86400",
    )
    await until(server.answers)
    return server.url


async def _open_rides(stack: Stack, count: int, redis_number: int) -> tuple[str, str]:
    """A database and a Redis with drivers online, and this many open rides without a driver."""
    database_url = await stack.new_database(f"open_rides_{count}_{redis_number}")
    redis_url = stack.redis_url.replace("db=0", f"db={redis_number}")
    await migrate(database_url)
    await fill(database_url, redis_url, open_rides=count)
    return database_url, redis_url


async def _offer_delays(stack: Stack, broker: RabbitMq, only: str) -> list[Delay]:
    """Delays from a passenger's request to the offer, with an API and a process of all other roles."""
    if only not in OFFER_DELAY:
        return []
    delays: list[Delay] = []
    for number, (bus, settings) in enumerate(
        (("PostgreSQL bus", {}), ("RabbitMQ", {"CATRACA_AMQP_URL": broker.url})), start=5
    ):
        database_url, redis_url = await _open_rides(stack, FEW_OPEN, number)
        settings |= {
            "CATRACA_DATABASE_URL": database_url,
            "CATRACA_REDIS_URL": redis_url,
            "CATRACA_PRESENCE_TIMEOUT": "86400",
        }
        with ExitStack() as running:
            server = serve(stack, running, "bench.server", "full", **settings)
            serve(stack, running, "catraca", "serve", "relay", "dispatcher", "housekeeper", **settings)
            await until(server.answers)
            figures = [await offer_milliseconds(server.url, database_url, SECRET) for _ in range(2)]
        delays.append(Delay(f"{OFFER_DELAY}, {bus}", 150, *figures[-1]))  # the first one warms up
    return delays


async def _free_delays(stack: Stack, only: str) -> list[Delay]:
    """The latency of an availability query by number of workers."""
    if not is_asked_for(only):
        return []
    database_url = await stack.new_database("free_time")
    await migrate(database_url)
    return [
        Delay(
            waited.name, FREE_WANT_MS if waited.workers == MOST_WORKERS else None, waited.median, waited.p99
        )
        for waited in await free_milliseconds(database_url)
    ]


async def _people_database(stack: Stack, count: int) -> str:
    url = await stack.new_database(f"people_{count}")
    await migrate(url)
    run_sign_ups("users", count, database_url=url)
    return url


async def _event_database(stack: Stack, *, kept: int) -> str:
    """A separate database, so that a measurement sees no events of another one."""
    url = await stack.new_database(f"news_{kept}")
    await migrate(url)
    if kept:
        run("keep", kept, database_url=url)
    return url


def _measure(measured: list[Row], options: argparse.Namespace, folder: Path) -> list[Result]:
    """Measure load and baseline in turns, so that a slow minute of the machine affects both."""
    rounds: dict[str, list[Round]] = {row.name: [] for row in measured}
    turns = [row for _ in range(options.rounds) for row in measured]
    for row in track(turns, description="Measuring", console=Console(stderr=True)):
        rate = row.measured.per_second(seconds=options.seconds, connections=CONNECTIONS, folder=folder)
        cores = take_noted()
        baseline = row.baseline.per_second(seconds=options.seconds, connections=CONNECTIONS, folder=folder)
        rounds[row.name].append(Round(rate, baseline, cores))
    return [Result.of(row, rounds[row.name]) for row in measured]


def _measure_delays(servers: Servers) -> list[Delay]:
    timers = Delay(
        f"timer due to handler, idle, {PENDING:,} pending",
        100,
        *timer_lateness_milliseconds(servers.database_url),
    )
    events = [
        Delay(f"commit to handler, idle, {name}", 50, *latency_milliseconds(servers.database_url, amqp_url))
        for name, amqp_url in (("PostgreSQL bus", None), ("RabbitMQ", servers.amqp_url))
    ]
    return [*events, timers]


def _measure_accepts(servers: Servers, results: list[Result]) -> list[Delay]:
    found = [result.per_second for result in results if result.name == ACCEPT_ROW]
    full = (servers.full_url, servers.full_database_url, servers.secret)
    return [
        Delay(
            f"accept at {rate / 2:,.0f} a second, half of the above",
            200,
            *accept_milliseconds(*full, per_second=rate / 2),
        )
        for rate in found
    ]


def _measure_communities(measured: list[Row], results: list[Result]) -> list[Delay]:
    """The time to load all fences, and the latency of requests while the server is half busy."""
    delays: list[Delay] = []
    waits: dict[str, Delay] = {}
    for row, result in zip(measured, results, strict=True):
        if row.name == FENCE_ROW:
            delays.append(Delay(f"{FENCES:,} fences loaded, median and most", None, *loading_milliseconds()))
        for name, load, rate in (
            (row.name, row.measured, result.per_second),
            (row.against, row.baseline, result.baseline_per_second),
        ):
            if isinstance(load, WishLoad) and name not in waits:
                figures = load.milliseconds(per_second=rate / 2)
                waits[name] = Delay(f"{name}, {rate / 2:,.0f} a second", None, *figures)
    return [*delays, *waits.values()]


def _nearby_delays(measured: list[Row]) -> list[Delay]:
    loads = [load for row in measured if row.name == NEARBY_ROW for load in (row.baseline, row.measured)]
    return [
        Delay(f"nearby, {load.drivers:,} drivers online", None, *load.milliseconds())
        for load in loads
        if isinstance(load, NearbyLoad)
    ]


def _slot_delays(measured: list[Row]) -> list[Delay]:
    """The wait of clients who request the same slot, from the first request on."""
    waited = {
        name: load
        for row in measured
        for name, load in ((row.name, row.measured), (row.against, row.baseline))
        if isinstance(load, SlotCrowdLoad)
    }
    return [Delay(name, None, *load.milliseconds()) for name, load in waited.items()]


async def _measure_live(stack: Stack, measured: list[Row], delays: list[Delay]) -> list[Table]:
    """Add the delays of the sockets to `delays`; return the tables."""
    tables: list[Table] = []
    for row in measured:
        if isinstance(row.measured, DeliveryLoad) and isinstance(row.baseline, BroadcastLoad):
            place = row.measured.place
            delays += [Delay(name, None, *figures) for name, *figures in await live_delays(stack, place)]
            tables.append(await stage_table(place, row.measured, row.baseline))
            tables.append(await memory_table(stack, place))
    return tables


async def _measure_fairness(servers: Servers, only: str, delays: list[Delay]) -> list[Table]:
    """Add the delays of one person's requests, while others send series, to `delays`; return the answers."""
    if not is_fairness_asked_for(only):
        return []
    measured = await measure_fairness(servers.full_url, servers.full_database_url, servers.secret)
    delays += [Delay(one.name, WANT_MS, one.median, one.p99) for one in measured]
    return [fairness_table(measured)]


async def _measure_parts(
    stack: Stack, running: ExitStack, options: argparse.Namespace, folder: Path
) -> Table:
    metrics = folder / "metrics"
    metrics.mkdir()
    server = serve(stack, running, "bench.rides.parts", PROMETHEUS_MULTIPROC_DIR=str(metrics))
    await until(server.answers)
    load = AcceptLoad(server.url, stack.database_url, SECRET)
    return await asyncio.to_thread(
        parts_table, load, seconds=options.seconds, connections=CONNECTIONS, folder=folder
    )


if __name__ == "__main__":
    asyncio.run(main())
