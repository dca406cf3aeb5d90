"""Servers and databases of one run. Each is started when a row first uses it, and ends with the run."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import count
from pathlib import Path
from uuid import uuid4

from bench.events.load import KEPT_FEW, KEPT_MANY
from bench.events.load import run as run_events
from bench.geofences.requests import LandPlace, WishLoad
from bench.geofences.world import settle_land
from bench.growth.history import FEW_ROWS as FEW_FINISHED
from bench.growth.history import MANY_ROWS as MANY_FINISHED
from bench.growth.history import add_history
from bench.live.loads import LivePlace
from bench.live.tables import open_live
from bench.location.nearby import FEW_DRIVERS, MANY_DRIVERS
from bench.location.world import put_online
from bench.matching.fixtures import FEW_OPEN, MANY_OPEN, fill
from bench.server_processes import SECRET, Server, serve
from bench.sign_ups.load import FEW_ROWS, MANY_ROWS
from bench.sign_ups.load import run as run_sign_ups
from catraca.platform.auth import sign_token
from tests.rabbitmq import RabbitMq
from tests.servers import Stack, until

CONNECTIONS = 32
FEW_ROUTES = 20
NO_REDIS_URL = "unix:///nowhere/redis.sock"


def caller_headers() -> dict[str, str]:
    """Headers of JSON requests from one passenger."""
    token = sign_token(SECRET, subject=uuid4(), roles=["passenger"], lifetime=timedelta(hours=6))
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Place:
    """An API with its database and Redis."""

    url: str
    database_url: str
    redis_url: str

    @property
    def api(self) -> tuple[str, str, str]:
        return self.url, self.database_url, SECRET

    @property
    def servers(self) -> tuple[str, str, str]:
        return self.database_url, self.redis_url, SECRET


class Stage:
    # Shared by all stages of a run, so that none finds the data of another one.
    _redis_numbers, _database_numbers = count(1), count(1)

    def __init__(self, stack: Stack, running: ExitStack) -> None:
        self.stack = stack
        self.running = running

    @property
    def folder(self) -> Path:
        return self.stack.folder

    @cached_property
    def raw_url(self) -> str:
        return self._serve("bench.server", "raw").url

    @cached_property
    def full(self) -> Place:
        return self._full()

    @cached_property
    def few_routes(self) -> Place:
        """An API with about this many routes, on the database of `full`."""
        return self._full(routes=FEW_ROUTES)

    @cached_property
    def on_rabbitmq(self) -> Place:
        return self._full(CATRACA_AMQP_URL=self.amqp_url)

    @cached_property
    def without_redis(self) -> Place:
        return self._full(redis_url=NO_REDIS_URL)

    @cached_property
    def two_processes(self) -> Place:
        """Two API processes with one listening socket, on the database of `full`."""
        server = self._serve("catraca", "serve", "api", "--workers", "2", CATRACA_LOG_LEVEL="error")
        return Place(server.url, self.stack.database_url, self.stack.redis_url)

    @cached_property
    def amqp_url(self) -> str:
        broker = RabbitMq(self.folder / "rabbitmq")
        broker.start()
        self.running.callback(lambda: asyncio.run(broker.stop()))
        asyncio.run(until(broker.answers))
        return broker.url

    @cached_property
    def events_url(self) -> str:
        """An empty database, so that a measurement sees no events of another one."""
        return self.new_database("events")

    @cached_property
    def few_kept_url(self) -> str:
        return self._kept_events(KEPT_FEW)

    @cached_property
    def many_kept_url(self) -> str:
        return self._kept_events(KEPT_MANY)

    @cached_property
    def few_people_url(self) -> str:
        return self._people(FEW_ROWS)

    @cached_property
    def many_people_url(self) -> str:
        return self._people(MANY_ROWS)

    @cached_property
    def few_drivers(self) -> Place:
        return self._drivers(FEW_DRIVERS)

    @cached_property
    def many_drivers(self) -> Place:
        return self._drivers(MANY_DRIVERS)

    @cached_property
    def few_open(self) -> Place:
        return self.open_rides(FEW_OPEN)

    @cached_property
    def many_open(self) -> Place:
        return self.open_rides(MANY_OPEN)

    @cached_property
    def few_finished(self) -> Place:
        return self._finished(FEW_FINISHED)

    @cached_property
    def many_finished(self) -> Place:
        return self._finished(MANY_FINISHED)

    @cached_property
    def live(self) -> tuple[LivePlace, Sequence[Server]]:
        """Two APIs with sockets, and two bare servers."""
        return asyncio.run(open_live(self.stack, self.running))

    @cached_property
    def land(self) -> LandPlace:
        """A server with thousands of communities; drivers are near, but no community has its own."""
        database_url, redis_url = self.new_database("communities"), self._new_redis()
        asyncio.run(settle_land(database_url, redis_url))
        place = LandPlace(self._full(database_url, redis_url).url, database_url, SECRET)
        # The first requests wait until all fences are loaded.
        WishLoad("ask", place).milliseconds(per_second=1)
        return place

    def open_rides(self, open_rides: int) -> Place:
        """A database and a Redis with drivers online and this many open rides without a driver; no API."""
        place = Place("", self.new_database(f"open_{open_rides}"), self._new_redis())
        asyncio.run(fill(place.database_url, place.redis_url, open_rides=open_rides))
        return place

    def new_database(self, name: str) -> str:
        """A migrated database; its name gets a number."""
        return asyncio.run(self.stack.migrated_database(f"{name}_{next(self._database_numbers)}"))

    def _finished(self, rows: int) -> Place:
        """An API whose tables have this many finished rides and appointments; drivers are online."""
        place = self.open_rides(FEW_OPEN)
        asyncio.run(add_history(place.database_url, rows))
        return self._full(place.database_url, place.redis_url)

    def _drivers(self, drivers: int) -> Place:
        """A server with this many drivers online."""
        database_url, redis_url = self.new_database("drivers"), self._new_redis()
        asyncio.run(put_online(database_url, redis_url, drivers))
        return self._full(database_url, redis_url)

    def _people(self, people: int) -> str:
        url = self.new_database("people")
        run_sign_ups("users", people, database_url=url)
        return url

    def _kept_events(self, kept: int) -> str:
        url = self.new_database("kept")
        run_events("keep", kept, database_url=url)
        return url

    def _new_redis(self) -> str:
        return self.stack.redis_url.replace("db=0", f"db={next(self._redis_numbers)}")

    def _full(
        self,
        database_url: str | None = None,
        redis_url: str | None = None,
        *,
        routes: int | None = None,
        **settings: str,
    ) -> Place:
        """The API with no-op routes added; with all its other routes, or about `routes`."""
        place = Place("", database_url or self.stack.database_url, redis_url or self.stack.redis_url)
        server = self._serve(
            "bench.server",
            "full",
            *([] if routes is None else [str(routes)]),
            CATRACA_DATABASE_URL=place.database_url,
            CATRACA_REDIS_URL=place.redis_url,
            # Drivers that send no more pings must stay online.
            CATRACA_PRESENCE_TIMEOUT="86400",
            **settings,
        )
        return Place(server.url, place.database_url, place.redis_url)

    def _serve(self, *command: str, **settings: str) -> Server:
        server = serve(self.stack, self.running, *command, **settings)
        asyncio.run(until(server.answers))
        return server
