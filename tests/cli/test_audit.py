"""`catraca audit` on a real database."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.platform.database import Database, audit
from tests.servers import Stack
from tests.support.forked import run_catraca

# The queries are tested elsewhere on both stacks; the output does not depend on the server.
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True)

Typed = Callable[..., Awaitable[tuple[int, str, str]]]
ANA, RIDE = uuid4(), uuid4()


@pytest.fixture
async def typed(stack: Stack, tmp_path: Path) -> Typed:
    """Runs the command on a database with two entries."""
    url = await stack.migrated_database(f"audit-{uuid4().hex[:8]}")
    database = await Database.open(url)
    async with database.transaction() as db:
        for action, kind, subject, data in [
            ("password_link_issued", "user", uuid4(), {}),
            ("ride.canceled", "ride", RIDE, {"reason": "un\x1b[31msafe"}),
        ]:
            await audit.record(
                db, actor_id=ANA, action=action, subject_kind=kind, subject_id=subject, data=data
            )
    await database.close()

    async def typed_in(*arguments: object) -> tuple[int, str, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "COLUMNS": "200",
            "CATRACA_STATE_DIR": str(tmp_path),
            "CATRACA_DATABASE_URL": url,
        }
        return await run_catraca("audit", *arguments, environment=environment, folder=tmp_path)

    return typed_in


async def test_entries_are_printed_as_table_and_json(typed: Typed) -> None:
    code, said, _ = await typed()
    assert code == 0
    assert said.index("ride.canceled") < said.index("password_link_issued"), "the newest first"
    assert str(RIDE) in said
    assert str(ANA) in said
    assert "un\ufffd[31msafe" in said, "control characters are replaced"
    code, said, _ = await typed("--limit", 1)
    assert "password_link_issued" not in said
    following = said.split("--before ")[1].split()[0]
    code, said, _ = await typed("--before", following, "--json")
    page = json.loads(said)
    assert ([item["action"] for item in page["items"]], page["next"]) == (["password_link_issued"], None)


async def test_each_option_selects_matching_entries(typed: Typed) -> None:
    for options, count in [
        (["--action", "ride.*"], 1),
        (["--subject-kind", "user"], 1),
        (["--subject-id", RIDE, "--actor-id", ANA], 1),
        (["--actor-id", uuid4()], 0),
        (["--from", "2001-01-01", "--to", "2001-01-02T10:00Z"], 0),
    ]:
        code, said, errors = await typed(*options, "--json")
        assert (code, errors) == (0, "")
        assert len(json.loads(said)["items"]) == count, options
    assert (await typed("--action", "user.*"))[:2] == (0, "No entries match.\n")


async def test_invalid_options_are_refused_in_one_line(typed: Typed) -> None:
    for options in (["--action", "ride*"], ["--from", "yesterday"]):
        code, said, errors = await typed(*options)
        assert (code, said, errors.count("\n")) == (2, "", 1), options
