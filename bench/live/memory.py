"""Memory of an idle socket, in our server and in a bare one."""

import asyncio
import resource
from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic, sleep

from bench.live.costs import resident_bytes
from bench.live.listeners import listening
from bench.live.loads import some_people, tokens_of
from bench.server_processes import Server, serve
from tests.servers import Stack, until

SOCKETS = (0, 1000, 2000, 10_000)
# Each process of the benchmark holds at most one end of each socket.
FILES = 12_000
SETTLE_SECONDS = 3


def allow_many_sockets() -> None:
    """Also for the processes that are started from here on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))


async def memory_of_sockets(stack: Stack, database_url: str) -> dict[str, list[float]]:
    """The megabytes of a fresh API and a fresh bare server, with each number of open sockets in `SOCKETS`."""
    tokens = tokens_of(await some_people(database_url, max(SOCKETS)))
    kinds = {"API": ("catraca", "serve", "api"), "bare server": ("bench.live", "bare")}
    found: dict[str, list[float]] = {}
    for name, command in kinds.items():
        with ExitStack() as running:
            server = serve(stack, running, *command, CATRACA_DATABASE_URL=database_url)
            await until(server.answers)
            found[name] = await asyncio.to_thread(_fill, server, tokens)
    return found


def _fill(server: Server, tokens: Sequence[str]) -> list[float]:
    """Sockets are only added: freed memory of a closed one would be reused."""
    with ExitStack() as opened:
        held: list[float] = []
        for before, now in zip((0, *SOCKETS), SOCKETS, strict=False):
            if now > before:
                opened.enter_context(listening([f"{server.url}/v1/ws"], tokens[before:now], each=0))
            held.append(_settled(server.pid))
        return held


def _settled(pid: int) -> float:
    """Return the minimum within some seconds: the greetings need memory for a moment."""
    ends_at, least = monotonic() + SETTLE_SECONDS, resident_bytes(pid)
    while monotonic() < ends_at:
        sleep(0.1)
        least = min(least, resident_bytes(pid))
    return least / 1e6


def kilobytes_a_socket(megabytes: Sequence[float]) -> float:
    return (megabytes[-1] - megabytes[0]) * 1000 / (SOCKETS[-1] - SOCKETS[0])
