"""Bookings over HTTP with all features on: of distinct hours, and of one hour for 200 clients at once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from bench.scheduling.world import WORKERS_OF_A_SERVICE, Agendas, Wish, count_booked, make_agendas
from bench.wrk import HttpLoad

PATH = "/v1/scheduling/appointments"
# More than the server can answer.
BOOKINGS_A_SECOND = 6000
CROWD = 200
# One line per request: the client's token and the body. Each request has its own key.
SCRIPT = """
local lines = {}
for line in io.lines("%s") do lines[#lines + 1] = line end
local count = 0
request = function()
  count = count + 1
  local token, body = lines[count]:match("(%%S+) (.+)")
  wrk.headers["Authorization"] = "Bearer " .. token
  wrk.headers["Idempotency-Key"] = "measured-" .. count
  return wrk.format("POST", nil, wrk.headers, body)
end
"""


@dataclass(frozen=True, slots=True)
class BookingLoad:
    """Each request is of another client for another hour, with its own worker or any of the service."""

    url: str
    database_url: str
    secret: str
    any_worker: bool = False
    workers_of_a_service: int = WORKERS_OF_A_SERVICE

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        agendas = asyncio.run(
            make_agendas(
                self.database_url,
                BOOKINGS_A_SECOND * seconds,
                workers_of_a_service=self.workers_of_a_service,
            )
        )
        lines = folder / "bookings.txt"
        wishes = agendas.wishes(self.secret, any_worker=self.any_worker)
        lines.write_text("\n".join(f"{wish.bearer} {wish.body}" for wish in wishes))
        load = HttpLoad(self.url + PATH, {"Content-Type": "application/json"}, SCRIPT % lines)
        rate = load.per_second(seconds=seconds, connections=connections, folder=folder)
        booked = asyncio.run(count_booked(self.database_url, agendas))
        if booked < rate * seconds - 2 * connections:
            raise RuntimeError(f"{rate * seconds:.0f} answers, but {booked} appointments")
        return rate


@dataclass(slots=True)
class SlotCrowdLoad:
    """All clients request one hour at once; with `no_op_path`, a route that does nothing."""

    url: str
    database_url: str
    secret: str
    no_op_path: str | None = None
    # The wait of each request, in all rounds.
    waited_seconds: list[float] = field(default_factory=list)

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        agendas = asyncio.run(make_agendas(self.database_url, 1, clients=CROWD))
        requests = [self._request(agendas, number) for number in range(CROWD)]
        waited, statuses = asyncio.run(_send_at_once(self.url, requests))
        wanted = {200: CROWD} if self.no_op_path else {201: 1, 409: CROWD - 1}
        if statuses != wanted:
            raise RuntimeError(f"{self.no_op_path or PATH} answered {dict(statuses)}")
        self.waited_seconds += waited
        return CROWD / max(waited)

    def milliseconds(self) -> tuple[float, float]:
        """Median and 99th percentile of the waits so far."""
        waited = sorted(self.waited_seconds)
        return waited[len(waited) // 2] * 1000, waited[len(waited) * 99 // 100] * 1000

    def _request(self, agendas: Agendas, number: int) -> bytes:
        wish = agendas.wish(self.secret, number, worker=0, hour=0)
        return request_of(
            wish if self.no_op_path is None else Wish(wish.bearer, '{"ok":true}'), self.no_op_path or PATH
        )


def request_of(wish: Wish, path: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {wish.bearer}\r\nIdempotency-Key: measured\r\n"
        f"Content-Length: {len(wish.body)}\r\n\r\n{wish.body}"
    ).encode()


async def _send_at_once(url: str, requests: Sequence[bytes]) -> tuple[list[float], Counter[int]]:
    """Send each on its own open connection; returns the seconds from the first send to each answer."""
    address = urlsplit(url)
    pairs = [await asyncio.open_connection(address.hostname, address.port) for _ in requests]
    began = perf_counter()
    for (_, writer), request in zip(pairs, requests, strict=True):
        writer.write(request)
    answers = await asyncio.gather(*(_answered(reader, began) for reader, _ in pairs))
    for _, writer in pairs:
        writer.close()
    return [seconds for seconds, _ in answers], Counter(status for _, status in answers)


async def _answered(reader: asyncio.StreamReader, began: float) -> tuple[float, int]:
    head = await reader.readuntil(b"\r\n\r\n")
    return perf_counter() - began, int(head.split(b" ", 2)[1])
