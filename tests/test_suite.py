"""Rules of the suite itself."""

import os
import subprocess
import sys

import pytest


@pytest.mark.xdist_group("a group")
def test_groups_of_tests_stay_together(request: pytest.FixtureRequest) -> None:
    """See `pytest_collection_modifyitems` in conftest.py."""
    assert request.node.nodeid.endswith("@a group") == ("PYTEST_XDIST_WORKER" in os.environ)


LEFT_OPEN = """
import asyncio
from tests.support.loop import TestLoop

async def main():
    return await asyncio.start_server(print, "127.0.0.1", 0)

loop = TestLoop()
server = loop.run_until_complete(main())
loop.close()
"""


def test_server_left_open_fails_the_run_and_does_not_hang_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60
    )
    assert "ResourceWarning: unclosed resource" in ended.stderr
    assert ended.returncode == 1
