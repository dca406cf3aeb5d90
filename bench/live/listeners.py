"""Processes that hold sockets: `Listeners` starts them, and each runs `listen`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic, process_time
from typing import TypeVar

import msgspec

from bench.live.wire import open_wires
from catraca.platform.embedded.children import end_with_parent

T = TypeVar("T")

LIMIT_SECONDS = 180


class Orders(msgspec.Struct, frozen=True):
    """Sockets at an address, each of which waits for `each` notifications; 0: stay idle."""

    url: str
    tokens: list[str]
    each: int


class ListenResult(msgspec.Struct, frozen=True):
    """Time of the last frame, CPU time, and the time of each frame by socket."""

    last_at: float
    cpu_seconds: float
    times: list[list[float]]


async def listen(orders: Orders) -> ListenResult:
    times: list[list[float]] = [[] for _ in orders.tokens]
    left, all_received = len(times) * orders.each, asyncio.Event()

    def receive(place: int, frame: bytes) -> None:
        nonlocal left
        if frame.startswith(b'{"seq":'):
            times[place].append(monotonic())
            left -= 1
            if left == 0:
                all_received.set()

    await open_wires(orders.url, orders.tokens, [partial(receive, place) for place in range(len(times))])
    began = process_time()
    print("ready", flush=True)
    if orders.each == 0:
        await asyncio.to_thread(sys.stdin.readline)
    else:
        async with asyncio.timeout(LIMIT_SECONDS):
            await all_received.wait()
    return ListenResult(max((max(one, default=0) for one in times), default=0), process_time() - began, times)


class Listeners:
    """Processes that listen, one for each address."""

    def __init__(self, urls: Sequence[str], tokens: Sequence[str], *, each: int) -> None:
        """Users are distributed over the addresses in turn."""
        shares = [list(tokens[place :: len(urls)]) for place in range(len(urls))]
        self._processes = [
            start_process("listen", Orders(url, share, each)) for url, share in zip(urls, shares, strict=True)
        ]
        self.pids = [process.pid for process in self._processes]

    def until_ready(self) -> None:
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("a listener did not get its sockets")

    def results(self) -> list[ListenResult]:
        """Wait for all processes and return their results."""
        return [answer_of(process, ListenResult) for process in self._processes]

    def end(self) -> None:
        for process in self._processes:
            with process:  # closes its pipes and waits for its end
                process.kill()


@contextmanager
def listening(urls: Sequence[str], tokens: Sequence[str], *, each: int) -> Iterator[Listeners]:
    """Run the block while all sockets are open."""
    listeners = Listeners(urls, tokens, each=each)
    try:
        listeners.until_ready()
        yield listeners
    finally:
        listeners.end()


def answer_of(process: subprocess.Popen[bytes], kind: type[T]) -> T:
    """Wait for the process and decode its output."""
    assert process.stdout is not None
    answer = process.stdout.read()
    if process.wait():
        raise RuntimeError(f"a process of the measurement ended with {process.returncode}")
    return msgspec.json.decode(answer, type=kind)


def start_process(what: str, orders: msgspec.Struct) -> subprocess.Popen[bytes]:
    """Start a process of the benchmark with its orders."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.live", what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
        preexec_fn=end_with_parent(signal.SIGKILL),
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(orders) + b"\n")
    process.stdin.flush()
    return process
