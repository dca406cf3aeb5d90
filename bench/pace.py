"""Requests sent at a steady pace, whether or not the server keeps up."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import closing
from time import perf_counter
from urllib.parse import urlsplit

# Called with the time at which a request was due, and the body of its answer.
Answered = Callable[[float, bytes], None]


async def send_paced(
    url: str,
    requests: Iterable[bytes],
    answered: Answered,
    *,
    per_second: float,
    connections: int,
    status: int | None,
) -> None:
    """Send each request when it is due, over this many connections.

    Every answer must have this status; None: any that begins with 2.
    """
    address = urlsplit(url)
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    expected = f"HTTP/1.1 {status or 2}".encode()

    async def work() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        with closing(writer):
            while True:
                due_at, request = await waiting.get()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
                body = await reader.readexactly(length)
                if not head.startswith(expected):
                    raise RuntimeError((head + body).decode())
                answered(due_at, body)
                waiting.task_done()

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work()) for _ in range(connections)]
        began = perf_counter()
        for number, request in enumerate(requests):
            due_at = began + number / per_second
            await asyncio.sleep(max(0.0, due_at - perf_counter()))
            waiting.put_nowait((due_at, request))
        await waiting.join()
        for worker in workers:
            worker.cancel()
