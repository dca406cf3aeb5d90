"""Many drivers accept one ride at once; measured until the last answer."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from bench.rides.world import DRIVER, RIDE, make_crowd, numbered_id, token_of

CROWD = 1000


@dataclass(frozen=True, slots=True)
class CrowdLoad:
    """Accepts of one ride; or, with `no_op_path`, requests to a route that does nothing."""

    url: str
    database_url: str
    secret: str
    no_op_path: str | None = None

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        crowd = asyncio.run(make_crowd(self.database_url, CROWD))
        path = self.no_op_path or f"/rides/{numbered_id(RIDE, crowd.first)}/accept"
        requests = [self._request(path, number) for number in crowd]
        taken_seconds, statuses = asyncio.run(send_at_once(self.url, requests))
        wanted = {200: CROWD} if self.no_op_path else {200: 1, 409: CROWD - 1}
        if statuses != wanted:
            raise RuntimeError(f"{path} answered {dict(statuses)}")
        return CROWD / taken_seconds

    def _request(self, path: str, number: int) -> bytes:
        body = (
            f'{{"driver_id":"{numbered_id(DRIVER, number)}"}}' if self.no_op_path is None else '{"ok":true}'
        )
        return (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token_of(number, self.secret)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


async def send_at_once(url: str, requests: Sequence[bytes]) -> tuple[float, Counter[int]]:
    """Send each request on a connection of its own, opened before; return the time taken and the statuses."""
    parts = urlsplit(url)
    pairs = [await asyncio.open_connection(parts.hostname, parts.port) for _ in requests]
    began = perf_counter()
    for (_, writer), request in zip(pairs, requests, strict=True):
        writer.write(request)
    statuses = await asyncio.gather(*(_status(reader) for reader, _ in pairs))
    taken_seconds = perf_counter() - began
    for _, writer in pairs:
        writer.close()
    return taken_seconds, Counter(statuses)


async def _status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1])
