"""Benchmarks of matching, each in its own process."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.processor import note

MATCHES_A_SECOND = 200


class MatchResult(msgspec.Struct, frozen=True):
    """Time from the first to the last match, and the processor time of each process in it."""

    seconds: float
    processor_seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class MatchLoad:
    database_url: str
    redis_url: str
    secret: str
    amqp_url: str | None = None

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        environment = os.environ | {
            "CATRACA_STATE_DIR": str(folder),
            "CATRACA_DATABASE_URL": self.database_url,
            "CATRACA_REDIS_URL": self.redis_url,
            "CATRACA_SECRET": self.secret,
            # The drivers send no more pings, and must stay online.
            "CATRACA_PRESENCE_TIMEOUT": "86400",
        }
        if self.amqp_url is not None:
            environment["CATRACA_AMQP_URL"] = self.amqp_url
        count = MATCHES_A_SECOND * seconds
        command = [sys.executable, "-m", "bench.matching", str(count)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        result = msgspec.json.decode(done.stdout, type=MatchResult)
        note(result.processor_seconds, elapsed_seconds=result.seconds)
        return count / result.seconds
