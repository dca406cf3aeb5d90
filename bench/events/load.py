"""Benchmarks of events, each in its own process."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KEPT_FEW = 1_000
KEPT_MANY = 1_000_000
LATENCY_EVENTS = 400


@dataclass(frozen=True, slots=True)
class EventLoad:
    """`events_a_second`, an estimate, times the seconds is the number of events."""

    what: str
    database_url: str
    amqp_url: str | None
    events_a_second: int

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        count = self.events_a_second * seconds
        return float(run(self.what, count, database_url=self.database_url, amqp_url=self.amqp_url)[0])


@dataclass(frozen=True, slots=True)
class RelayLoad:
    """The relay alone."""

    database_url: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        return float(run("relay", 10_000 * seconds, database_url=self.database_url)[0])


def latency_milliseconds(database_url: str, amqp_url: str | None) -> tuple[float, float]:
    """Median and 99th percentile from commit to handler, idle."""
    median, high = run("latency", LATENCY_EVENTS, database_url=database_url, amqp_url=amqp_url)
    return float(median), float(high)


def timer_lateness_milliseconds(database_url: str) -> tuple[float, float]:
    """Median and 99th percentile from due to handler, with many pending."""
    median, high = run("timers", LATENCY_EVENTS, database_url=database_url)
    return float(median), float(high)


def run(what: str, count: int, *, database_url: str, amqp_url: str | None = None) -> list[str]:
    environment = os.environ | {"BENCH_DATABASE_URL": database_url}
    if amqp_url is not None:
        environment["BENCH_AMQP_URL"] = amqp_url
    command = [sys.executable, "-m", "bench.events", what, str(count)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()
