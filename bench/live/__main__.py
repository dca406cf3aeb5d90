"""A process of a benchmark: `python -m bench.live TASK`, with its orders on standard input."""

import asyncio
import os
import sys
import tempfile

os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import msgspec
import uvloop

from bench.live import bare, drivers, listeners, notifier
from catraca.platform.telemetry import configure_logging

WORKS = {
    "listen": (listeners.Orders, listeners.listen),
    "notify": (notifier.Orders, notifier.notify),
    "drive": (drivers.Orders, drivers.drive),
}

if __name__ == "__main__":
    configure_logging("warning")
    if sys.argv[1] == "bare":
        bare.serve(int(os.environ["CATRACA_PORT"]))
    else:
        orders, work = WORKS[sys.argv[1]]
        order = msgspec.json.decode(sys.stdin.buffer.readline(), type=orders)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sys.stdout.buffer.write(msgspec.json.encode(runner.run(work(order))))
