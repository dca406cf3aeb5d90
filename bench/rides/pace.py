"""Accepts at a steady pace: how long one takes when the server is half busy."""

import asyncio
from collections.abc import Sequence
from time import perf_counter
from urllib.parse import urlsplit

from bench.rides.accepts import accept_request
from bench.rides.world import make_rides

PACED_SECONDS = 5
CONNECTIONS = 64


def accept_milliseconds(
    url: str, database_url: str, secret: str, *, per_second: float
) -> tuple[float, float]:
    """Median and 99th percentile, each from the moment a request was due, whether or not it could be sent."""
    waiting = asyncio.run(make_rides(database_url, int(per_second * PACED_SECONDS)))
    requests = [accept_request(number, secret) for number in waiting]
    taken = sorted(asyncio.run(_paced(url, requests, per_second)))
    return taken[len(taken) // 2] * 1000, taken[len(taken) * 99 // 100] * 1000


async def _paced(url: str, requests: Sequence[bytes], per_second: float) -> list[float]:
    parts = urlsplit(url)
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    taken: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        while True:
            due_at, request = await due.get()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            taken.append(perf_counter() - due_at)
            due.task_done()

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work()) for _ in range(CONNECTIONS)]
        began = perf_counter()
        for number, request in enumerate(requests):
            due_at = began + number / per_second
            await asyncio.sleep(max(0.0, due_at - perf_counter()))
            due.put_nowait((due_at, request))
        await due.join()
        for worker in workers:
            worker.cancel()
    return taken
