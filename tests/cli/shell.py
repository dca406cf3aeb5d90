"""`catraca ...` in a forked process, which has its imports already."""

import os
import subprocess
from pathlib import Path

from tests.support.forked import run_catraca


async def catraca(*arguments: str, folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "NO_COLOR": "1", "CATRACA_STATE_DIR": str(folder / "state"), **settings}
    code, stdout, stderr = await run_catraca(*arguments, environment=environment, folder=folder)
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)
