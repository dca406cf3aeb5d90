"""The Python script of the tour."""

import asyncio
import sys
from pathlib import Path

from catraca.roles.parts import Parts
from tests.client.people import token_of
from tests.docs.pages import TOUR, fenced
from tests.servers import on_one_stack

RUN_SECONDS = 60


@on_one_stack
async def test_script_prints_the_passengers_messages(town: Parts, tmp_path: Path) -> None:
    (script,) = fenced(TOUR.read_text(), "python")
    file = tmp_path / "script.py"
    file.write_text(script.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{town.settings.process.port}"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(file),
        token_of("passenger"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(RUN_SECONDS):
        output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    assert output.decode().startswith("1 ride.cancelled ")
