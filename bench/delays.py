"""Delays and tables: those measured after a row, and those without a row."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rich.table import Table

from bench.events.load import latency_milliseconds, timer_lateness_milliseconds
from bench.events.timers import PENDING
from bench.geofences.fences import FENCES, loading_milliseconds
from bench.geofences.requests import WishLoad
from bench.live.loads import BroadcastLoad, DeliveryLoad
from bench.live.tables import live_delays, memory_table, stage_table
from bench.location.nearby import NearbyLoad
from bench.matching.fixtures import FEW_OPEN
from bench.matching.pace import A_SECOND, offer_milliseconds
from bench.measurement import Delay, Done, Extra
from bench.memory import MEMORY, request_memory_table
from bench.rides.accepts import AcceptLoad
from bench.rides.pace import accept_milliseconds
from bench.scheduling.booking import SlotCrowdLoad
from bench.scheduling.fairness import WANT_MS, fairness_table, measure_fairness
from bench.scheduling.fairness import is_asked_for as is_fairness_asked_for
from bench.scheduling.free import MOST_WORKERS, free_milliseconds
from bench.scheduling.free import is_asked_for as is_free_asked_for
from bench.server_processes import SECRET, serve
from bench.stage import Stage
from tests.servers import until

FREE_WANT_MS = 50


def accept_delay(processes: str, **want: float) -> Callable[[Done], list[Delay]]:
    """The latency of accepts at half of the measured rate."""

    def measure(done: Done) -> list[Delay]:
        assert isinstance(done.measured, AcceptLoad)
        rate = done.result.per_second / 2
        median, p99 = accept_milliseconds(
            done.measured.url, done.measured.database_url, done.measured.secret, per_second=rate
        )
        return [
            Delay(
                f"accept at half rate, {processes}",
                want.get("p99"),
                median,
                p99,
                want_median_below=want.get("median"),
                per_second=rate,
            )
        ]

    return measure


def fence_delay(_: Done) -> list[Delay]:
    return [Delay(f"{FENCES:,} fences loaded, median and most", None, *loading_milliseconds())]


def wish_delays(done: Done) -> list[Delay]:
    """The latency of both kinds of requests at half of their measured rates."""
    delays: list[Delay] = []
    for name, load, rate in (
        (done.result.name, done.measured, done.result.per_second / 2),
        (done.result.against, done.baseline, done.result.baseline_per_second / 2),
    ):
        assert isinstance(load, WishLoad)
        delays.append(Delay(name, None, *load.milliseconds(per_second=rate), per_second=rate))
    return delays


def nearby_delays(done: Done) -> list[Delay]:
    loads = [load for load in (done.baseline, done.measured) if isinstance(load, NearbyLoad)]
    return [Delay(f"nearby, {load.drivers:,} drivers online", None, *load.milliseconds()) for load in loads]


def slot_delays(done: Done) -> list[Delay]:
    """The wait of clients who request the same slot, from the first request on."""
    names = {done.result.name: done.measured, done.result.against: done.baseline}
    return [
        Delay(name, None, *load.milliseconds())
        for name, load in names.items()
        if isinstance(load, SlotCrowdLoad)
    ]


def live_figures(stage: Stage) -> Callable[[Done], list[Delay | Table]]:
    """The delays, stages and memory of sockets."""

    def measure(done: Done) -> list[Delay | Table]:
        assert isinstance(done.measured, DeliveryLoad)
        assert isinstance(done.baseline, BroadcastLoad)
        place = done.measured.place
        return [
            *(Delay(name, None, *figures) for name, *figures in asyncio.run(live_delays(stage.stack, place))),
            asyncio.run(stage_table(place, done.measured, done.baseline)),
            asyncio.run(memory_table(stage.stack, place)),
        ]

    return measure


def extras(stage: Stage) -> list[Extra]:
    return [
        _delay(
            "commit to handler, idle, PostgreSQL bus",
            50,
            lambda: latency_milliseconds(stage.events_url, None),
        ),
        _delay(
            "commit to handler, idle, RabbitMQ",
            50,
            lambda: latency_milliseconds(stage.events_url, stage.amqp_url),
        ),
        _delay(
            f"timer due to handler, idle, {PENDING:,} pending",
            100,
            lambda: timer_lateness_milliseconds(stage.events_url),
        ),
        _delay(
            f"ride requested to offer committed, {A_SECOND} a second, PostgreSQL bus",
            150,
            lambda: _offer_milliseconds(stage),
        ),
        _delay(
            f"ride requested to offer committed, {A_SECOND} a second, RabbitMQ",
            150,
            lambda: _offer_milliseconds(stage, CATRACA_AMQP_URL=stage.amqp_url),
        ),
        Extra(is_free_asked_for, lambda: _free_delays(stage)),
        Extra(is_fairness_asked_for, lambda: _fairness_figures(stage)),
        Extra(lambda only: only in MEMORY, lambda: [request_memory_table(stage)]),
    ]


def _delay(name: str, want_below: float, measure: Callable[[], tuple[float, float]]) -> Extra:
    return Extra(lambda only: only in name, lambda: [Delay(name, want_below, *measure())])


def _offer_milliseconds(stage: Stage, **settings: str) -> tuple[float, float]:
    """From a passenger's request to the offer, with an API and a process of all other roles."""
    place = stage.open_rides(FEW_OPEN)
    settings |= {
        "CATRACA_DATABASE_URL": place.database_url,
        "CATRACA_REDIS_URL": place.redis_url,
        "CATRACA_PRESENCE_TIMEOUT": "86400",
    }

    async def measure(url: str) -> tuple[float, float]:
        await offer_milliseconds(url, place.database_url, SECRET)  # warms up
        return await offer_milliseconds(url, place.database_url, SECRET)

    with ExitStack() as running:
        server = serve(stage.stack, running, "bench.server", "full", **settings)
        serve(stage.stack, running, "catraca", "serve", "relay", "dispatcher", "housekeeper", **settings)
        asyncio.run(until(server.answers))
        return asyncio.run(measure(server.url))


def _free_delays(stage: Stage) -> list[Delay]:
    """The latency of an availability query by number of workers."""
    return [
        Delay(one.name, FREE_WANT_MS if one.workers == MOST_WORKERS else None, one.median, one.p99)
        for one in asyncio.run(free_milliseconds(stage.new_database("free_time")))
    ]


def _fairness_figures(stage: Stage) -> Sequence[Delay | Table]:
    """The latency of one person's requests while others send series, and the answers."""
    measured = asyncio.run(measure_fairness(*stage.full.api))
    return [*(Delay(one.name, WANT_MS, one.median, one.p99) for one in measured), fairness_table(measured)]
