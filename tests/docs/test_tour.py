"""The blocks of the tour run one after another, and get the answers that the page shows."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.roles.demo import fill_demo_city
from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import SECRET, free_port, listening
from tests.docs.pages import ROOT, TOUR, fenced
from tests.servers import Stack

RUN_SECONDS = 60
# Comes before curl on the PATH: stores each answer with its status, and prints it as curl would.
KEEPING_CURL = """#!/bin/sh
answer="$ANSWERS/$(ls "$ANSWERS" | grep -c status)"
: > "$answer.body"
PATH="$REAL_PATH" curl "$@" -o "$answer.body" -w '%{http_code}' > "$answer.status"
cat "$answer.body"
"""


@dataclass(frozen=True)
class Demo:
    url: str
    database_url: str


@dataclass(frozen=True)
class Expected:
    """An expected answer: the line `# -> 200 ..."name":"Rosa"...` after a curl."""

    status: str
    pieces: list[str]

    def fits(self, answer: str) -> bool:
        """True if the answer contains the pieces in this order."""
        at = 0
        for piece in self.pieces:
            found = answer.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return True


def expected_answers(script: str) -> list[Expected]:
    lines = re.findall(r"^# -> (\d{3})(?: (.*))?$", script, re.MULTILINE)
    return [Expected(status, [piece for piece in text.split("...") if piece]) for status, text in lines]


@pytest.fixture
async def demo(stack: Stack, settings: Settings) -> AsyncIterator[Demo]:
    """A Catraca as after `make up`: with the demo city only."""
    database_url = await stack.migrated_database(f"docs_{uuid4().hex}")
    own = settings.changed(database_url=database_url, port=free_port())
    async with open_parts(own) as parts:
        await fill_demo_city(parts.database)
        async with listening(parts) as url:
            yield Demo(url, database_url)


async def run_script(script: str, folder: Path, demo: Demo) -> list[tuple[str, str]]:
    """Run the script as a reader would; returns status and body of every curl in it."""
    answers, programs = folder / "answers", folder / "bin"
    answers.mkdir()
    programs.mkdir()
    (programs / "curl").write_text(KEEPING_CURL)
    (programs / "curl").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CATRACA_")}
    environment = {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "REAL_PATH": os.environ["PATH"],
        "ANSWERS": str(answers),
        "CATRACA_SECRET": SECRET,
        "CATRACA_STATE_DIR": str(folder / "state"),
        "CATRACA_DATABASE_URL": demo.database_url,
    }
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        script,
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(RUN_SECONDS):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    found = sorted(answers.glob("*.status"), key=lambda path: int(path.stem))
    return [(path.read_text(), path.with_suffix(".body").read_text()) for path in found]


async def test_blocks_get_the_documented_answers(demo: Demo, tmp_path: Path) -> None:
    script = "\n".join(fenced(TOUR.read_text(), "sh"))
    expected = expected_answers(script)
    assert len(expected) == script.count("curl -s"), "a curl without its answer"
    typed = script.replace("http://127.0.0.1:8000", demo.url)
    typed = typed.replace(".venv/bin/catraca", f"{sys.executable} -m catraca")
    given = await run_script(typed, tmp_path, demo)
    assert [status for status, _ in given] == [one.status for one in expected]
    for one, (_, answer) in zip(expected, given, strict=True):
        assert one.fits(answer), f"{one} does not fit {answer}"
