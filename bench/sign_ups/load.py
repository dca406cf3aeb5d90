"""Measurements of sign-ups, each in its own process."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FEW_ROWS = 10_000
MANY_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class SignUpLoad:
    """`expected_per_second` times the seconds is the number of sign-ups."""

    what: str
    database_url: str
    amqp_url: str | None
    expected_per_second: int

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        return float(
            run(
                self.what,
                self.expected_per_second * seconds,
                database_url=self.database_url,
                amqp_url=self.amqp_url,
            )
        )


def run(what: str, count: int, *, database_url: str, amqp_url: str | None = None) -> str:
    environment = os.environ | {"BENCH_DATABASE_URL": database_url}
    if amqp_url is not None:
        environment["BENCH_AMQP_URL"] = amqp_url
    command = [sys.executable, "-m", "bench.sign_ups", what, str(count)]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
