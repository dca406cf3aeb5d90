"""Processor time of a load by process, read from the kernel."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from bench.live.costs import worked_in, worked_seconds

PROGRAMS = {"postgres": "PostgreSQL", "redis-server": "Redis", "beam.smp": "RabbitMQ"}
# Loads note here how many processor cores each process used; the runner takes it after a measurement.
_noted: dict[str, float] = {}


def note(processor_seconds: Mapping[str, float], *, elapsed_seconds: float) -> None:
    """Keep the processor time of the load that has just ended."""
    _noted.clear()
    _noted.update({name: seconds / elapsed_seconds for name, seconds in processor_seconds.items()})


def take_noted() -> dict[str, float]:
    """Return the cores used by each process during the last load; empty if the load noted nothing."""
    taken = dict(_noted)
    _noted.clear()
    return taken


@contextmanager
def noting(folder: Path, url: str) -> Iterator[None]:
    """Note the processor time of the servers in this folder and of the API at this address."""
    before, began = _worked(folder, url), perf_counter()
    yield
    note(_worked(folder, url) - before, elapsed_seconds=perf_counter() - began)


def servers_worked(folder: Path) -> Counter[str]:
    """Return the processor seconds so far of PostgreSQL, Redis and RabbitMQ in this folder."""
    worked: Counter[str] = Counter()
    for program, seconds in worked_in(folder).items():
        if program in PROGRAMS:
            worked[PROGRAMS[program]] += seconds
    return worked


def pids_at(url: str) -> list[int]:
    """Return the processes that were started with this port in their environment."""
    setting = f"CATRACA_PORT={urlsplit(url).port}".encode()
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if setting in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:  # ended meanwhile, or of another user
            continue
    return found


def _worked(folder: Path, url: str) -> Counter[str]:
    api: Counter[str] = Counter({"API": worked_seconds(pids_at(url))})  # type: ignore[dict-item]
    return servers_worked(folder) + api
