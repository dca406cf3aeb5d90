"""The storms, with their full sizes. Each round raises AssertionError when a promise is broken."""

import asyncio
import atexit
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from catraca.roles.parts import Parts
from tests.domains.matching.world_machine import weather_core
from tests.journeys.instances import instance
from tests.journeys.outages import kill_postgres_under_load
from tests.platform.bus.breakable import Embedded, debian, started
from tests.rabbitmq import RabbitMq
from tests.servers import private_folder, until
from tests.support import effects
from tests.support.appointment_storm import APIS, weather_appointments
from tests.support.appointment_storm import SETTINGS as APPOINTMENT_SETTINGS
from tests.support.confirm_commits import come_during_commit, die_around_confirm
from tests.support.confirm_storm import weather_confirmations
from tests.support.live_storm import LiveSize, weather_live
from tests.support.matching_storm import Size as TownSize
from tests.support.matching_storm import weather_matching
from tests.support.news_fleet import fleet_at, roll
from tests.support.news_room import database_beside, news_room
from tests.support.news_storms import die_in_windows, jostle
from tests.support.news_windows import WINDOWS
from tests.support.ride_accepts import accept_again_and_again, accept_at_once
from tests.support.ride_fleet import RideFleet, ride_place
from tests.support.ride_kills import die_around_commit, kill_amid_bursts
from tests.support.ride_pauses import pause_in_every_way
from tests.support.ride_races import race
from tests.support.ride_replays import replay
from tests.support.sign_up_fleet import Place
from tests.support.sign_up_outage import outlast_outage
from tests.support.sign_up_storm import Size, weather_sign_ups
from tests.support.storms import kill_server_among_repeats

FULL_SIZE = Size(sign_ups=100_000)
OUTAGE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Storm:
    name: str
    rounds: int
    round_seconds: float
    # Gets the number of the round, and the share of its full size where it has one; may say what it found.
    run: Callable[..., Awaitable[str | None]]
    stacks: Sequence[str] = ("embedded", "servers")
    has_size: bool = False


async def _idempotency_kill(parts: Parts, number: int) -> None:
    await effects.create_tables(parts.database)
    await kill_server_among_repeats(parts.settings, parts.database, kill_after_answers=number % 4)


async def _postgres_kill(_: Parts, __: int) -> None:
    """A whole `catraca up` of its own, which must also bring PostgreSQL back by itself."""
    async with instance() as here:
        await here.start("--workers", "2")
        await kill_postgres_under_load(here)
        assert await here.stop() == 0


async def _news_crash(parts: Parts, number: int, *, on_rabbitmq: bool) -> None:
    """Eight processes die in one window; the next round takes the next, and the next turn them apart."""
    window, apart = WINDOWS[number % len(WINDOWS)], number // len(WINDOWS) % 2 == 1
    async with news_room(await _beside(parts, "news"), await _broker_url(on_rabbitmq)) as room:
        await die_in_windows(room, [window] * 8, more=2000, apart=apart)


async def _news_crowd(parts: Parts, _: int, *, on_rabbitmq: bool) -> None:
    async with news_room(await _beside(parts, "news"), await _broker_url(on_rabbitmq)) as room:
        await jostle(room, rounds=2)


async def _news_rolling(parts: Parts, _: int, *, on_rabbitmq: bool) -> None:
    url, broker_url = await _beside(parts, "news_rolling"), await _broker_url(on_rabbitmq)
    assert parts.settings.servers.redis_url is not None
    with TemporaryDirectory(prefix="catraca-") as folder:
        async with fleet_at(Path(folder), url, parts.settings.servers.redis_url, broker_url) as fleet:
            await roll(fleet, passes=2)


async def _sign_ups(parts: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """Each round is another storm, of the whole size."""
    size = Size(sign_ups=_part(FULL_SIZE.sign_ups, share))
    async with _own_place(parts, on_rabbitmq) as place:
        return await weather_sign_ups(place, size, seed=number)


async def _sign_ups_outage(parts: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """By turns PostgreSQL hangs, and is gone."""
    async with _own_place(parts, on_rabbitmq) as place:
        return await outlast_outage(place, seconds=OUTAGE_SECONDS * share, freezes=number % 2 == 0)


async def _ride(
    _: Parts, number: int, *, share: float, on_rabbitmq: bool, storm: Callable[..., Awaitable[str]]
) -> str:
    """Each round has servers and processes of its own, and ends when all is at rest and agrees."""
    stack_name = "servers" if on_rabbitmq else "embedded"
    async with ride_place(stack_name, await _broker_url(on_rabbitmq)) as place, place.fleet() as here:
        found = await storm(here, number, share)
        await here.settle()
        return found


async def _ride_accepts(here: RideFleet, _: int, share: float) -> str:
    rounds = _part(10, share)
    crowds = [await accept_at_once(here, drivers=drivers, rounds=rounds) for drivers in (100, 1000)]
    return "; ".join(crowds)


async def _ride_same_key(here: RideFleet, _: int, share: float) -> str:
    return await accept_again_and_again(here, times=_part(1000, share))


async def _ride_replays(here: RideFleet, _: int, share: float) -> str:
    return await replay(here, replays=_part(20_000, share))


async def _ride_races(here: RideFleet, number: int, share: float) -> str:
    return await race(here, rounds=_part(1000, share), seed=number)


async def _ride_paused(here: RideFleet, number: int, share: float) -> str:
    return await pause_in_every_way(here, drivers=100, bursts=_part(10, share), seed=number)


async def _ride_killed(here: RideFleet, number: int, share: float) -> str:
    async with here.gated_api() as (api, gate):
        told = await die_around_commit(here, api, gate)
    return f"{told}; {await kill_amid_bursts(here, drivers=100, rounds=_part(10, share), seed=number)}"


async def _confirmations(here: RideFleet, number: int, share: float) -> str:
    """Ten of the two hundred rounds."""
    async with here.gated_api() as (api, gate):
        told = [await around(here, api, gate) for around in (die_around_confirm, come_during_commit)]
    return "; ".join([*told, await weather_confirmations(here, rounds=_part(10, share), seed=number)])


async def _appointments(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """A tenth of the ten thousand slots."""
    stack_name, url = "servers" if on_rabbitmq else "embedded", await _broker_url(on_rabbitmq)
    async with (
        ride_place(stack_name, url) as place,
        place.fleet(apis=APIS, settings=APPOINTMENT_SETTINGS) as here,
    ):
        found = await weather_appointments(here, rounds=_part(4, share), seed=number)
        await here.settle()
        return found


async def _matching(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """By turns drivers are asked one by one, and three at once."""
    whole = TownSize(offers_at_once=1 if number % 2 == 0 else 3)
    size = replace(whole, drivers=_part(whole.drivers, share), rides=_part(whole.rides, share))
    url = await _broker_url(on_rabbitmq)
    async with ride_place("servers" if on_rabbitmq else "embedded", url) as place:
        return await weather_matching(place, _broker() if on_rabbitmq else None, size, seed=number)


async def _live(_: Parts, number: int, *, share: float, on_rabbitmq: bool) -> str:
    """The size of a town, and all of its people on sockets."""
    whole = LiveSize()
    town = replace(whole.town, drivers=_part(whole.town.drivers, share), rides=_part(whole.town.rides, share))
    size = replace(whole, passengers=_part(whole.passengers, share), town=town)
    url = await _broker_url(on_rabbitmq)
    async with ride_place("servers" if on_rabbitmq else "embedded", url) as place:
        return await weather_live(place, _broker() if on_rabbitmq else None, size, seed=number)


async def _matching_core(_: Parts, number: int, *, share: float) -> str:
    """Without any server: the core alone, in a world where everything goes wrong."""
    return await asyncio.to_thread(weather_core, _part(2000, share), seed=number)


def _part(whole: int, share: float) -> int:
    return max(1, round(whole * share))


@asynccontextmanager
async def _own_place(parts: Parts, on_rabbitmq: bool) -> AsyncIterator[Place]:
    """With a PostgreSQL to be broken: Debian's beside RabbitMQ, the embedded one where it is the bus."""
    folder = private_folder()
    redis_url, amqp_url = parts.settings.servers.redis_url, await _broker_url(on_rabbitmq)
    assert redis_url is not None
    try:
        async with debian(folder) if on_rabbitmq else started(Embedded(folder)) as postgres:
            with TemporaryDirectory(prefix="catraca-") as state:
                yield Place(Path(state), postgres, redis_url, amqp_url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    """One for all rounds, started when the first of them asks; it ends with us."""
    folder = private_folder()
    broker = RabbitMq(folder / "rabbitmq")
    broker.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(broker.kill)
    return broker


def _news(
    name: str, run: Callable[..., Awaitable[None]], *, rounds: int, round_seconds: float
) -> list[Storm]:
    """On the PostgreSQL bus with both stacks, and on RabbitMQ."""
    on_postgres, on_rabbitmq = partial(run, on_rabbitmq=False), partial(run, on_rabbitmq=True)
    return [
        Storm(name, rounds, round_seconds, on_postgres),
        Storm(f"{name}-rabbitmq", rounds, round_seconds, on_rabbitmq, stacks=["servers"]),
    ]


def _sized(
    name: str, run: Callable[..., Awaitable[str]], *, rounds: int, round_seconds: float
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
        *_news("news-crash", _news_crash, rounds=64, round_seconds=240),
        *_news("news-crowd", _news_crowd, rounds=50, round_seconds=240),
        *_news("news-rolling", _news_rolling, rounds=20, round_seconds=300),
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
    ]
}
