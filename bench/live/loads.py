"""Deliveries per second: from rows to clients, and from a bare loop to the same clients."""

import asyncio
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import msgspec

from bench.live import notifier
from bench.live.costs import worked_seconds
from bench.live.listeners import answer_of, listening, start_process
from bench.matching.fixtures import new_passengers
from bench.processor import note, servers_worked
from bench.server_processes import SECRET, Server
from catraca.platform.auth import sign_token
from catraca.platform.database import Database

SOCKETS = 200
# An estimate, to choose the number of deliveries for the given seconds.
A_SECOND = 6000
# As long as a notification of a ride that has begun.
FRAME = (
    '{"seq":1000,"type":"ride.started","data":{"ride_id":"0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",'
    '"message":"Sua corrida começou.","started_at":"2031-05-30T14:00:00.123456Z"}}'
)


@dataclass(frozen=True, slots=True)
class LivePlace:
    """Two APIs with their own database; PostgreSQL and Redis run in the folder."""

    folder: Path
    database_url: str
    redis_url: str
    apis: Sequence[Server]

    @property
    def urls(self) -> list[str]:
        return [f"{api.url}/v1/ws" for api in self.apis]


@dataclass
class DeliveryLoad:
    place: LivePlace
    # Microseconds per delivery by stage; one entry per turn.
    costs: list[dict[str, float]] = field(default_factory=list)
    _people: list[UUID] = field(default_factory=list)

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        self._people = self._people or asyncio.run(some_people(self.place.database_url, SOCKETS))
        each = A_SECOND * seconds // SOCKETS
        orders = notifier.Orders(self.place.database_url, self.place.redis_url, self._people, each)
        pids = [api.pid for api in self.place.apis]
        with listening(self.place.urls, tokens_of(self._people), each=each) as listeners:
            apis, servers = worked_seconds(pids), servers_worked(self.place.folder)
            notified = answer_of(start_process("notify", orders), notifier.NotifyResult)
            heard = listeners.results()
            apis, servers = worked_seconds(pids) - apis, servers_worked(self.place.folder) - servers
        deliveries = SOCKETS * each
        spent = {
            "notifier: texts and statements, CPU": notified.cpu_seconds,
            "PostgreSQL, CPU": servers["PostgreSQL"],
            "Redis, CPU": servers["Redis"],
            "both APIs: reading, hub, sending, CPU": apis,
            "clients, CPU": sum(one.cpu_seconds for one in heard),
            "notifier, from first to last (time)": notified.seconds,
            "announcing (time, in parallel)": notified.announcing_seconds,
        }
        self.costs.append({name: value / deliveries * 1e6 for name, value in spent.items()})
        elapsed = max(one.last_at for one in heard) - notified.began_at
        note({"API": apis, "notifier": notified.cpu_seconds, **servers}, elapsed_seconds=elapsed)
        return deliveries / elapsed


@dataclass
class BroadcastLoad:
    bare: Sequence[Server]
    costs: list[dict[str, float]] = field(default_factory=list)

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        each = 3 * A_SECOND * seconds // SOCKETS
        urls = [f"{server.url}/v1/ws" for server in self.bare]
        pids = [server.pid for server in self.bare]
        with listening(urls, ["-"] * SOCKETS, each=each) as listeners:
            worked = worked_seconds(pids)
            with ThreadPoolExecutor() as threads:
                began = list(threads.map(lambda server: _broadcast(server, each), self.bare))
            heard = listeners.results()
            worked = worked_seconds(pids) - worked
        self.costs.append(
            {
                "bare servers: a loop that sends, CPU": worked / (SOCKETS * each) * 1e6,
                "their clients, CPU": sum(one.cpu_seconds for one in heard) / (SOCKETS * each) * 1e6,
            }
        )
        return SOCKETS * each / (max(one.last_at for one in heard) - min(began))


def _broadcast(server: Server, times: int) -> float:
    url = f"{server.url}/broadcast?times={times}"
    with urllib.request.urlopen(urllib.request.Request(url, FRAME.encode()), timeout=120) as answer:
        return msgspec.json.decode(answer.read())["began_at"]


async def some_people(database_url: str, count: int) -> list[UUID]:
    database = await Database.open(database_url)
    try:
        return await new_passengers(database, count)
    finally:
        await database.close()


def tokens_of(people: Sequence[UUID], role: str = "passenger") -> list[str]:
    return [sign_token(SECRET, subject=one, roles=[role], lifetime=timedelta(hours=6)) for one in people]
