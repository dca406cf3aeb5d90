"""`catraca ...` in a forked process, which has its imports already."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.support.forked import run_catraca


async def catraca(*arguments: str, folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "NO_COLOR": "1", "CATRACA_STATE_DIR": str(folder / "state"), **settings}
    code, stdout, stderr = await run_catraca(*arguments, environment=environment, folder=folder)
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


@dataclass
class Machine:
    """A database, and a command on it."""

    command: ClassVar[tuple[str, ...]]
    url: str
    folder: Path

    async def run(self, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        """Run the command; returns exit code, output and errors."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "COLUMNS": "200",
            "TZ": "UTC",
            "CATRACA_STATE_DIR": str(self.folder / "state"),
            "CATRACA_DATABASE_URL": self.url,
        }
        return await run_catraca(
            *self.command, *arguments, environment=environment, folder=self.folder, stdin=stdin.encode()
        )
