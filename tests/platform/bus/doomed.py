"""A consumer in a process of its own, there to be killed."""

import pickle
import subprocess
import sys
from pathlib import Path
from uuid import UUID

from catraca.platform.bus import Queue, Topology
from tests.servers import until
from tests.support import consumers
from tests.support.consumers import Errand

ROOT = Path(consumers.__file__).parent.parent.parent


class Doomed:
    """`start` any number of times; each ends with `kill`."""

    def __init__(self, folder: Path, database_url: str, broker_url: str | None) -> None:
        self._said = folder / "said"
        self._database_url = database_url
        self._broker_url = broker_url
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, topology: Topology, queue: Queue, *, batching: bool = False) -> None:
        errand = Errand(self._database_url, self._broker_url, topology, queue.name, batching)
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", consumers.__name__], stdin=subprocess.PIPE, stdout=said, cwd=ROOT
            )
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps(errand))
        self._process.stdin.close()

    def holds(self) -> list[UUID]:
        """What it has begun and will never finish."""
        assert self._process is not None
        assert self._process.poll() is None, "it ended by itself"
        return [UUID(line) for line in self._said.read_text().split()]

    async def until_holding(self, count: int) -> list[UUID]:
        return await until(lambda: self.holds() if len(self.holds()) == count else None)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
