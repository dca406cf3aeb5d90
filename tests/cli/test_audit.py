"""`catraca audit` on a real database."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.platform.database import Database, audit
from tests.cli.shell import Machine
from tests.servers import Stack

# The queries are tested elsewhere on both stacks; the output does not depend on the server.
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True)

RunAudit = Callable[..., Awaitable[tuple[int, str, str]]]
ANA, RIDE = uuid4(), uuid4()


class AuditMachine(Machine):
    command = ("audit",)


@pytest.fixture
async def run_audit(stack: Stack, tmp_path: Path) -> RunAudit:
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

    return AuditMachine(url, tmp_path).run


async def test_entries_are_printed_as_table_and_json(run_audit: RunAudit) -> None:
    code, output, _ = await run_audit()
    assert code == 0
    assert output.index("ride.canceled") < output.index("password_link_issued"), "the newest first"
    assert str(RIDE) in output
    assert str(ANA) in output
    assert "un\ufffd[31msafe" in output, "control characters are replaced"
    code, output, _ = await run_audit("--limit", 1)
    assert "password_link_issued" not in output
    following = output.split("--before ")[1].split()[0]
    code, output, _ = await run_audit("--before", following, "--json")
    page = json.loads(output)
    assert ([item["action"] for item in page["items"]], page["next"]) == (["password_link_issued"], None)


async def test_each_option_selects_matching_entries(run_audit: RunAudit) -> None:
    for options, count in [
        (["--action", "ride.*"], 1),
        (["--subject-kind", "user"], 1),
        (["--subject-id", RIDE, "--actor-id", ANA], 1),
        (["--actor-id", uuid4()], 0),
        (["--from", "2001-01-01", "--to", "2001-01-02T10:00Z"], 0),
    ]:
        code, output, errors = await run_audit(*options, "--json")
        assert (code, errors) == (0, "")
        assert len(json.loads(output)["items"]) == count, options
    assert (await run_audit("--action", "user.*"))[:2] == (0, "No entries match.\n")


async def test_invalid_options_are_refused_in_one_line(run_audit: RunAudit) -> None:
    for options in (["--action", "ride*"], ["--from", "yesterday"]):
        code, output, errors = await run_audit(*options)
        assert (code, output, errors.count("\n")) == (2, "", 1), options
