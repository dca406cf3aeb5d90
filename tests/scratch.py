"""The folder of the tests' servers: in memory if there is enough of it.

The tests kill processes, not the machine, and files in memory survive a process as files on disk do. On a
disk, half of a run would be waiting for it.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
# Tests must not exhaust the machine's memory: their databases take a GiB and more.
ROOM_BYTES = 4 * 2**30


def folder_in_memory() -> Path | None:
    """A new folder that every account may use like /tmp; None if memory is short or mounted noexec."""
    if not MEMORY.is_dir() or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return None
    if min(shutil.disk_usage(MEMORY).free, _free_memory_bytes()) < ROOM_BYTES:
        return None
    folder = Path(tempfile.mkdtemp(prefix="catraca-tests-", dir=MEMORY))
    folder.chmod(0o1777)
    return folder


def _free_memory_bytes() -> int:
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
