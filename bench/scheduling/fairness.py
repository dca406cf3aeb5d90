"""Latency of one person's requests while others send the most expensive request there is.

The request is a series of 52 days for any worker, at a time that is not on the grid: each day fails.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

from rich.table import Table

from bench.rides.world import numbered_id
from bench.scheduling.world import CLIENT, SERVICE, Agendas, bearer_of, make_agendas

AT_ONCE: Final = 60
SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.02
MINUTES_OFF_THE_GRID: Final = 7
DATES: Final = 52
WANT_MS: Final = 200
NAME: Final = f"fairness: GET /v1/me of another person, {AT_ONCE} series at once from {{people}}"
CROWDS: Final = {"one person": 1, f"{AT_ONCE} people": AT_ONCE}


@dataclass(frozen=True, slots=True)
class Fairness:
    """What another person got meanwhile; times in milliseconds."""

    name: str
    median: float
    p99: float
    # Answers by status.
    series: Counter[int]
    me: Counter[int]
    ready: Counter[int]


def is_asked_for(words: str) -> bool:
    return any(words in NAME.format(people=people) for people in CROWDS)


async def measure_fairness(url: str, database_url: str, secret: str) -> list[Fairness]:
    """For series from one person, and from many: the latency of another person, and of readiness."""
    agendas = await make_agendas(database_url, 1, clients=AT_ONCE + 1)
    return [await _measure(url, agendas, secret, people, count) for people, count in CROWDS.items()]


async def _measure(url: str, agendas: Agendas, secret: str, people: str, count: int) -> Fairness:
    bearers = [bearer_of(secret, numbered_id(CLIENT, agendas.first_client + n)) for n in range(count + 1)]
    crowd, other = bearers[:-1], bearers[-1]
    series = [_series(agendas, crowd[number % count]) for number in range(AT_ONCE)]
    # The first requests of a process fill its caches.
    await asyncio.gather(
        *(_Sender(url, request, _once()).run() for request in (_get("/v1/me", other), series[0]))
    )
    until = perf_counter() + SECONDS
    sent = [_Sender(url, request, lambda: perf_counter() < until) for request in series]
    me = _Sender(url, _get("/v1/me", other), lambda: perf_counter() < until, PAUSE_SECONDS)
    ready = _Sender(url, _get("/readyz"), lambda: perf_counter() < until, PAUSE_SECONDS)
    await asyncio.gather(*(sender.run() for sender in (*sent, me, ready)))
    waited = sorted(me.milliseconds)
    return Fairness(
        NAME.format(people=people),
        waited[len(waited) // 2],
        waited[len(waited) * 99 // 100],
        sum((sender.statuses for sender in sent), Counter[int]()),
        me.statuses,
        ready.statuses,
    )


def _once() -> Callable[[], bool]:
    """True for the first call only."""
    turns = iter([True])
    return lambda: next(turns, False)


class _Sender:
    """Sends one request again and again on its own connection."""

    def __init__(
        self, url: str, request: bytes, goes_on: Callable[[], bool], pause_seconds: float = 0.0
    ) -> None:
        self._address = urlsplit(url)
        self._request = request
        self._goes_on = goes_on
        self._pause_seconds = pause_seconds
        self.statuses = Counter[int]()
        self.milliseconds: list[float] = []

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        while self._goes_on():
            began = perf_counter()
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            self.milliseconds.append((perf_counter() - began) * 1000)
            self.statuses[int(head.split(b" ", 2)[1])] += 1
            await asyncio.sleep(self._pause_seconds)
        writer.close()


def _series(agendas: Agendas, bearer: str) -> bytes:
    starts_at = agendas.starts_at + timedelta(minutes=MINUTES_OFF_THE_GRID)
    body = json.dumps(
        {
            "service_id": str(numbered_id(SERVICE, agendas.first)),
            "starts_at": starts_at.isoformat(),
            "every": "day",
            "count": DATES,
            "on_conflict": "skip",
        }
    ).encode()
    head = _head("POST /v1/scheduling/series", bearer)
    return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _get(path: str, bearer: str | None = None) -> bytes:
    return _head(f"GET {path}", bearer) + b"\r\n"


def _head(request: str, bearer: str | None) -> bytes:
    authorization = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    return f"{request} HTTP/1.1\r\nHost: bench\r\n{authorization}".encode()


def fairness_table(measured: Sequence[Fairness]) -> Table:
    table = Table(title=f"Answers by status, {SECONDS:.0f} s each")
    for column in ("what", "series", "GET /v1/me", "/readyz"):
        table.add_column(column)
    for one in measured:
        table.add_row(one.name, *(_counts(statuses) for statuses in (one.series, one.me, one.ready)))
    return table


def _counts(statuses: Counter[int]) -> str:
    return ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
