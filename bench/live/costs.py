"""CPU time and memory of processes, from the kernel."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def worked_seconds(pids: Iterable[int]) -> float:
    return sum(_ticks(pid, with_children=False) for pid in pids) / TICKS_A_SECOND


def worked_in(folder: Path) -> Counter[str]:
    """Return CPU seconds of the servers in this folder, by program, with those of ended children."""
    worked: Counter[str] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve().is_relative_to(folder):
                name = (process / "comm").read_text().strip()
                worked[name] += _ticks(int(process.name), with_children=True) / TICKS_A_SECOND  # type: ignore[assignment]
        except OSError:  # ended meanwhile
            continue
    return worked


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def _ticks(pid: int, *, with_children: bool) -> int:
    # The fields after the name, which may contain any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11 : 15 if with_children else 13])
