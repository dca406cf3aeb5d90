"""Results that are not ratios: delays, cost of each stage, memory of a socket."""

import asyncio
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

from rich.table import Table

from bench.live import drivers, notifier
from bench.live.hub_cost import hub_microseconds
from bench.live.listeners import answer_of, listening, start_process
from bench.live.loads import SOCKETS, BroadcastLoad, DeliveryLoad, LivePlace, some_people, tokens_of
from bench.live.memory import SOCKETS as HELD
from bench.live.memory import allow_many_sockets, kilobytes_a_socket, memory_of_sockets
from bench.pace import send_paced
from bench.rides.accepts import accept_request
from bench.rides.world import PASSENGER, make_rides, numbered_id, token_of
from bench.server_processes import SECRET, Server, serve
from catraca.platform.auth import sign_token
from catraca.platform.database.migrations import migrate
from tests.servers import Stack, until

A_SECOND = 200
PACED_SECONDS = 10
DRIVERS = 300
DRIVEN_SECONDS = 10
# No server listens there.
NO_REDIS = "unix:///nowhere/redis.sock?db=0"
DELAY = f"live: commit to client, {A_SECOND} messages a second"
POSITIONS = f"live: ping to passenger, {DRIVERS} drivers, one ping a second each"


async def open_live(stack: Stack, running: ExitStack) -> tuple[LivePlace, list[Server]]:
    """Two APIs on a database of their own, and two bare servers."""
    allow_many_sockets()
    database_url = await stack.new_database("live")
    await migrate(database_url)
    apis = [_api(stack, running, database_url, stack.redis_url) for _ in range(2)]
    bare = [serve(stack, running, "bench.live", "bare") for _ in range(2)]
    for server in [*apis, *bare]:
        await until(server.answers)
    return LivePlace(stack.folder, database_url, stack.redis_url, apis), bare


def _api(stack: Stack, running: ExitStack, database_url: str, redis_url: str) -> Server:
    settings = {"CATRACA_DATABASE_URL": database_url, "CATRACA_REDIS_URL": redis_url}
    return serve(stack, running, "catraca", "serve", "api", CATRACA_LOG_LEVEL="error", **settings)


async def live_delays(stack: Stack, place: LivePlace) -> list[tuple[str, float, float]]:
    """Median and 99th percentile in milliseconds of each; notifications with Redis and without, positions."""
    found = [(DELAY, *await asyncio.to_thread(_paced, place, place.redis_url))]
    with ExitStack() as running:
        apis = [_api(stack, running, place.database_url, NO_REDIS) for _ in range(2)]
        for api in apis:
            await until(api.answers)
        alone = LivePlace(place.folder, place.database_url, NO_REDIS, apis)
        found.append((f"{DELAY}, Redis away", *await asyncio.to_thread(_paced, alone, NO_REDIS)))
    rate, *delay = await _positions(stack, place)
    return [*found, (f"{POSITIONS}: {rate:,.0f} positions a second", *delay)]


def _paced(place: LivePlace, redis_url: str) -> tuple[float, float]:
    people = asyncio.run(some_people(place.database_url, SOCKETS))
    each = A_SECOND * PACED_SECONDS // SOCKETS
    orders = notifier.Orders(place.database_url, redis_url, people, each, A_SECOND)
    with listening(place.urls, tokens_of(people), each=each) as listeners:
        notified = answer_of(start_process("notify", orders), notifier.NotifyResult)
        heard = listeners.results()
    count = len(place.apis)
    delays = [
        at - committed_at
        for number, commits in enumerate(notified.times)
        # The first second or so warms up.
        for at, committed_at in list(zip(heard[number % count].times[number // count], commits, strict=True))[
            1:
        ]
    ]
    return _milliseconds(delays)


def _milliseconds(delays: Sequence[float]) -> tuple[float, float]:
    percentiles = statistics.quantiles(delays, n=100)
    return percentiles[49] * 1000, percentiles[98] * 1000


async def stage_table(place: LivePlace, measured: DeliveryLoad, bare: BroadcastLoad) -> Table:
    table = Table(
        title=f"Cost of a delivery in microseconds; {SOCKETS} sockets, {notifier.BATCH} rows a batch"
    )
    table.add_column("stage")
    table.add_column("microseconds", justify="right")
    for load in (measured, bare):
        for name in load.costs[0]:
            table.add_row(name, f"{statistics.median(cost[name] for cost in load.costs):,.0f}")
    hub = await asyncio.to_thread(lambda: asyncio.run(hub_microseconds(place.database_url)))
    table.add_row("of an API: reading the announcement and the hub, without sending", f"{hub:,.1f}")
    return table


async def memory_table(stack: Stack, place: LivePlace) -> Table:
    found = await memory_of_sockets(stack, place.database_url)
    table = Table(title="Memory of a process with idle sockets, in megabytes")
    for column in ("server", *(f"{count:,} sockets" for count in HELD), "kilobytes a socket"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name, megabytes in found.items():
        table.add_row(name, *(f"{one:.1f}" for one in megabytes), f"{kilobytes_a_socket(megabytes):.1f}")
    return table


async def _positions(stack: Stack, place: LivePlace) -> tuple[float, float, float]:
    """Positions a second that passengers see, and how long after the ping: median and 99th percentile."""
    waiting = await make_rides(place.database_url, DRIVERS)
    requests = [accept_request(number, SECRET) for number in waiting]
    url = place.apis[0].url
    await send_paced(url, requests, lambda *_: None, per_second=200, connections=8, status=200)
    passengers = [
        sign_token(
            SECRET,
            subject=numbered_id(PASSENGER, number),
            roles=["passenger"],
            lifetime=timedelta(hours=1),
        )
        for number in waiting
    ]
    orders = drivers.Orders(
        *place.urls, [token_of(number, SECRET) for number in waiting], passengers, 1.0, DRIVEN_SECONDS
    )
    with ExitStack() as running:
        settings = {"CATRACA_DATABASE_URL": place.database_url, "CATRACA_LOG_LEVEL": "error"}
        serve(stack, running, "catraca", "serve", "notifier", **settings)
        seen = await asyncio.to_thread(lambda: answer_of(start_process("drive", orders), drivers.DriveResult))
    if not seen.delays:
        raise RuntimeError(f"of {seen.pings} pings no passenger saw anything")
    return len(seen.delays) / DRIVEN_SECONDS, *_milliseconds(seen.delays)
