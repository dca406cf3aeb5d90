"""The storms, with their full sizes. Each round raises AssertionError when a promise is broken."""

import asyncio
import atexit
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial

from catraca.roles.parts import Parts
from tests.domains.matching.simulation.machine import run_core_storms
from tests.journeys.instances import instance
from tests.journeys.outages import kill_postgres_under_load
from tests.rabbitmq import RabbitMq
from tests.servers import private_folder, until
from tests.storms.appointments.storm import APIS, storm_appointments
from tests.storms.appointments.storm import SETTINGS as APPOINTMENT_SETTINGS
from tests.storms.confirmations.commits import come_during_commit, die_around_confirm
from tests.storms.confirmations.storm import storm_confirmations
from tests.storms.events.rolling_restarts import restart_in_turn
from tests.storms.events.room import event_world
from tests.storms.events.storm import die_in_windows, jostle
from tests.storms.events.windows import WINDOWS
from tests.storms.fleet import StormFleet, storm_fleet
from tests.storms.idempotency import kill_server_among_repeats
from tests.storms.live.storm import LiveSize, storm_live
from tests.storms.matching.storm import Size as TownSize
from tests.storms.matching.storm import storm_matching
from tests.storms.rides.accepts import accept_again_and_again, accept_at_once
from tests.storms.rides.kills import die_around_commit, kill_amid_bursts
from tests.storms.rides.pauses import pause_in_every_way
from tests.storms.rides.races import race
from tests.storms.rides.replays import replay
from tests.storms.servers import StormServers, database_beside, storm_servers
from tests.storms.sign_ups.outage import outlast_outage
from tests.storms.sign_ups.storm import Size, storm_sign_ups
from tests.storms.soak.storm import soak
from tests.support import effects

FULL_SIZE = Size(sign_ups=100_000)
OUTAGE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Storm:
    name: str
    rounds: int
    round_seconds: float
    # Gets the number of the round, and, if `has_size`, the share of its full size; may return a report.
    run: Callable[..., Awaitable[str | None]]
    stacks: Sequence[str] = ("embedded", "servers")
    has_size: bool = False


async def _idempotency_kill(parts: Parts, number: int) -> None:
    await effects.create_tables(parts.database)
    await kill_server_among_repeats(parts.settings, parts.database, kill_after_answers=number % 4)


async def _postgres_kill(_: Parts, __: int) -> None:
    """On a `catraca up` of its own, which must also restart PostgreSQL by itself."""
    async with instance() as here:
        await here.start("--workers", "2")
        await kill_postgres_under_load(here)
        assert await here.stop() == 0


async def _events_crash(parts: Parts, number: int, *, on_rabbitmq: bool) -> None:
    """Eight processes die in one window. Each round takes the next window, every second turn with `apart`."""
    window, apart = WINDOWS[number % len(WINDOWS)], number // len(WINDOWS) % 2 == 1
    async with event_world(await _beside(parts, "news"), await _broker_url(on_rabbitmq)) as room:
        await die_in_windows(room, [window] * 8, more=2000, apart=apart)


async def _events_crowd(parts: Parts, _: int, *, on_rabbitmq: bool) -> None:
    async with event_world(await _beside(parts, "news"), await _broker_url(on_rabbitmq)) as room:
        await jostle(room, rounds=2)


async def _events_rolling(_: Parts, __: int, *, share: float, on_rabbitmq: bool) -> None:
    async with _servers(on_rabbitmq) as servers:
        await restart_in_turn(servers, passes=_part(2, share))


async def _sign_ups(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """Each round has the full size and another seed."""
    size = Size(sign_ups=_part(FULL_SIZE.sign_ups, share))
    async with _servers(on_rabbitmq) as servers:
        return await storm_sign_ups(servers, size, seed=number)


async def _sign_ups_outage(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """PostgreSQL is frozen in even rounds and killed in odd ones."""
    async with _servers(on_rabbitmq) as servers:
        return await outlast_outage(servers, seconds=OUTAGE_SECONDS * share, freezes=number % 2 == 0)


async def _ride(
    _: Parts, number: int, *, share: float, on_rabbitmq: bool, storm: Callable[..., Awaitable[str]]
) -> str:
    """Each round has its own servers and processes, and ends with the checks of `settle`."""
    async with _servers(on_rabbitmq) as servers, storm_fleet(servers) as here:
        found = await storm(here, number, share)
        await here.settle()
        return found


async def _ride_accepts(here: StormFleet, _: int, share: float) -> str:
    rounds = _part(10, share)
    crowds = [await accept_at_once(here, drivers=drivers, rounds=rounds) for drivers in (100, 1000)]
    return "; ".join(crowds)


async def _ride_same_key(here: StormFleet, _: int, share: float) -> str:
    return await accept_again_and_again(here, times=_part(1000, share))


async def _ride_replays(here: StormFleet, _: int, share: float) -> str:
    return await replay(here, replays=_part(20_000, share))


async def _ride_races(here: StormFleet, number: int, share: float) -> str:
    return await race(here, rounds=_part(1000, share), seed=number)


async def _ride_paused(here: StormFleet, number: int, share: float) -> str:
    return await pause_in_every_way(here, drivers=100, bursts=_part(10, share), seed=number)


async def _ride_killed(here: StormFleet, number: int, share: float) -> str:
    async with here.gated_api() as (api, gate):
        report = await die_around_commit(here, api, gate)
    return f"{report}; {await kill_amid_bursts(here, drivers=100, rounds=_part(10, share), seed=number)}"


async def _confirmations(here: StormFleet, number: int, share: float) -> str:
    """Ten of the two hundred rounds."""
    async with here.gated_api() as (api, gate):
        report = [await around(here, api, gate) for around in (die_around_confirm, come_during_commit)]
    return "; ".join([*report, await storm_confirmations(here, rounds=_part(10, share), seed=number)])


async def _appointments(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """A tenth of the ten thousand slots."""
    async with (
        _servers(on_rabbitmq) as servers,
        storm_fleet(servers, apis=APIS, settings=APPOINTMENT_SETTINGS) as here,
    ):
        found = await storm_appointments(here, rounds=_part(4, share), seed=number)
        await here.settle()
        return found


async def _matching(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """One offer at a time in even rounds, three in odd ones."""
    whole = TownSize(offers_at_once=1 if number % 2 == 0 else 3)
    size = replace(whole, drivers=_part(whole.drivers, share), rides=_part(whole.rides, share))
    async with _servers(on_rabbitmq) as servers:
        return await storm_matching(servers, _broker() if on_rabbitmq else None, size, seed=number)


async def _live(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """A town whose people are all connected by sockets."""
    whole = LiveSize()
    town = replace(whole.town, drivers=_part(whole.town.drivers, share), rides=_part(whole.town.rides, share))
    size = replace(whole, passengers=_part(whole.passengers, share), town=town)
    async with _servers(on_rabbitmq) as servers:
        return await storm_live(servers, _broker() if on_rabbitmq else None, size, seed=number)


async def _soak(_: Parts, __: int, *, share: float, on_rabbitmq: bool) -> str:
    """Half an hour at half of the rate that two APIs bear."""
    async with _servers(on_rabbitmq) as servers, storm_fleet(servers) as here:
        return await soak(here, share=share)


async def _matching_core(_: Parts, number: int, *, share: float) -> str:
    """Without any server: the pure core alone, in a simulation with every failure."""
    return await asyncio.to_thread(run_core_storms, _part(2000, share), seed=number)


def _part(whole: int, share: float) -> int:
    return max(1, round(whole * share))


@asynccontextmanager
async def _servers(on_rabbitmq: bool) -> AsyncIterator[StormServers]:
    """Debian's servers with RabbitMQ, or the embedded ones with PostgreSQL as the bus."""
    stack_name = "servers" if on_rabbitmq else "embedded"
    async with storm_servers(stack_name, await _broker_url(on_rabbitmq)) as servers:
        yield servers


async def _beside(parts: Parts, name: str) -> str:
    assert parts.settings.servers.database_url is not None
    return await database_beside(parts.settings.servers.database_url, name)


async def _broker_url(wanted: bool) -> str | None:
    if not wanted:
        return None
    await until(_broker().answers)
    return _broker().url


@cache
def _broker() -> RabbitMq:
    """A RabbitMQ shared by all rounds, started on first use; it ends with this process."""
    folder = private_folder()
    broker = RabbitMq(folder / "rabbitmq")
    broker.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(broker.kill)
    return broker


def _on_both_buses(
    name: str, run: Callable[..., Awaitable[None]], *, rounds: int, round_seconds: float
) -> list[Storm]:
    """On the PostgreSQL bus with both stacks, and on RabbitMQ."""
    on_postgres, on_rabbitmq = partial(run, on_rabbitmq=False), partial(run, on_rabbitmq=True)
    return [
        Storm(name, rounds, round_seconds, on_postgres),
        Storm(f"{name}-rabbitmq", rounds, round_seconds, on_rabbitmq, stacks=["servers"]),
    ]


def _sized(
    name: str, run: Callable[..., Awaitable[str | None]], *, rounds: int, round_seconds: float
) -> list[Storm]:
    """On the PostgreSQL bus with the embedded stack, and on RabbitMQ."""
    on_postgres, on_rabbitmq = partial(run, on_rabbitmq=False), partial(run, on_rabbitmq=True)
    return [
        Storm(name, rounds, round_seconds, on_postgres, stacks=["embedded"], has_size=True),
        Storm(f"{name}-rabbitmq", rounds, round_seconds, on_rabbitmq, stacks=["servers"], has_size=True),
    ]


def _rides(
    name: str, storm: Callable[..., Awaitable[str]], *, rounds: int, round_seconds: float = 1800
) -> list[Storm]:
    return _sized(name, partial(_ride, storm=storm), rounds=rounds, round_seconds=round_seconds)


STORMS = {
    storm.name: storm
    for storm in [
        Storm("idempotency-kill", rounds=200, round_seconds=90, run=_idempotency_kill),
        Storm("postgres-kill", rounds=50, round_seconds=120, run=_postgres_kill, stacks=["embedded"]),
        *_on_both_buses("events-crash", _events_crash, rounds=64, round_seconds=240),
        *_on_both_buses("events-crowd", _events_crowd, rounds=50, round_seconds=240),
        *_sized("events-rolling", _events_rolling, rounds=20, round_seconds=300),
        *_sized("sign-ups", _sign_ups, rounds=1, round_seconds=3600),
        *_sized("sign-ups-outage", _sign_ups_outage, rounds=2, round_seconds=900),
        *_rides("ride-accepts", _ride_accepts, rounds=10, round_seconds=3600),
        *_rides("ride-same-key", _ride_same_key, rounds=5),
        *_rides("ride-replays", _ride_replays, rounds=50),
        *_rides("ride-races", _ride_races, rounds=10),
        *_rides("ride-paused", _ride_paused, rounds=10),
        *_rides("ride-killed", _ride_killed, rounds=10),
        *_rides("confirmations", _confirmations, rounds=20),
        *_sized("appointments", _appointments, rounds=10, round_seconds=1800),
        Storm("matching-core", 20, 900, _matching_core, stacks=["embedded"], has_size=True),
        *_sized("matching-storm", _matching, rounds=4, round_seconds=1800),
        *_sized("live", _live, rounds=4, round_seconds=1800),
        *_sized("soak", _soak, rounds=1, round_seconds=3600),
    ]
}
