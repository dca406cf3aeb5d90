"""A consumer in a process of its own, there to be killed."""

import os
import pickle
from pathlib import Path
from uuid import UUID

from catraca.platform.bus import Queue, Topology
from tests.servers import until
from tests.support import forked
from tests.support.consumers import Errand
from tests.support.forked import ForkedProcess


class Doomed:
    """`start` any number of times; each ends with `kill`."""

    def __init__(self, folder: Path, database_url: str, broker_url: str | None) -> None:
        self._said, self._errand = folder / "said", folder / "errand"
        self._database_url = database_url
        self._broker_url = broker_url
        self._process: ForkedProcess | None = None

    def start(self, topology: Topology, queue: Queue, *, batching: bool = False) -> None:
        errand = Errand(self._database_url, self._broker_url, topology, queue.name, batching)
        self._said.unlink(missing_ok=True)
        self._said.touch()
        self._errand.write_bytes(pickle.dumps(errand))
        self._process = forked.start(
            "tests.support.consumers:main", environment=os.environ, stdin=self._errand, stdout=self._said
        )

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
