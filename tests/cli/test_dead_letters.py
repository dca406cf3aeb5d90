"""`catraca dead-letters` on a real database."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.platform.database import Database
from tests.cli.shell import Machine
from tests.domains.dead_letters.example_letters import audited, bury, execute, of, replays, stored
from tests.servers import Stack

# The service is tested elsewhere on both stacks; the output does not depend on the server.
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class LetterMachine(Machine):
    """A database with letters, and the commands on it."""

    command = ("dead-letters",)
    database: Database


@pytest.fixture(scope="module")
async def url(stack: Stack) -> str:
    return await stack.migrated_database(f"letters-{uuid4().hex[:8]}")


@pytest.fixture
async def machine(url: str, tmp_path: Path) -> AsyncIterator[LetterMachine]:
    database = await Database.open(url)
    await execute(database, "TRUNCATE dead_letters, outbox")
    yield LetterMachine(url, tmp_path, database)
    await database.close()


async def test_commands_count_show_edit_and_replay_a_letter(machine: LetterMachine) -> None:
    letter_id = await bury(machine.database, b'{"name": "Ana"')
    await bury(machine.database, reason="ride_unknown")
    code, output, _ = await machine.run("groups")
    assert (code, "audit_log_queue" in output, "KeyError" in output) == (0, True, True)
    code, output, _ = await machine.run("list", "--reason", "KeyError")
    assert (code, str(letter_id) in output, "Ana" in output) == (0, True, False)
    code, output, _ = await machine.run("replay", letter_id)
    assert (code, output) == (1, "")
    code, output, _ = await machine.run("show", letter_id, "--body")
    assert (code, output) == (0, '{"name": "Ana"')
    code, output, _ = await machine.run("edit", letter_id, "--file", "-", stdin=output + "}")
    assert (code, f"replay {letter_id}" in output) == (0, True)
    code, output, _ = await machine.run("replay", letter_id)
    assert (code, output.startswith("Replayed")) == (0, True)
    (row,) = await replays(machine.database)
    assert (row["aggregate_id"], row["body"]) == (letter_id, '{"name": "Ana"}')
    entries = [line for line in await audited(machine.database) if line["subject_id"] == str(letter_id)]
    assert [line["action"].removeprefix("dead_letter_") for line in entries] == ["read", "edited", "replayed"]
    assert {(line["actor_id"], line["data"]["by"]) for line in entries} == {(None, "command line")}


async def test_bulk_replay_asks_for_confirmation(machine: LetterMachine) -> None:
    for body in (b"{}", b"{}", b"{}", b"{"):
        await bury(machine.database, body)
    many = ["replay", "--queue", "audit_log_queue", "--rate", 1]
    code, output, _ = await machine.run(*many, "--dry-run")
    assert code == 0
    assert output == (
        "Would replay: 3 of 4 letters; sent over 2 s; 1 cannot be replayed (not JSON, or the queue is gone)\n"
    )
    code, output, complaint = await machine.run(*many)
    assert (code, output, "--yes" in complaint) == (2, "", True), "no terminal to ask for confirmation"
    assert await replays(machine.database) == []
    code, output, _ = await machine.run(*many, "--yes")
    assert (code, output.startswith("Replayed: 3 of 4 letters; sent over 2 s")) == (0, True)
    assert len(await replays(machine.database)) == 3


async def test_discard_needs_a_reason_and_prints_the_result(machine: LetterMachine) -> None:
    one, other = await bury(machine.database), await bury(machine.database)
    code, _, complaint = await machine.run("discard", one)
    assert (code, "because" in complaint) == (2, True)
    assert (await machine.run("discard", one, "--because", " "))[0] == 2
    assert (await machine.run("discard", one, "--because", "a test"))[:2] == (0, "Discarded.\n")
    assert (await of(machine.database, one))["decision_reason"] == "a test"
    code, output, _ = await machine.run("discard", "--all", "--because", "all of them", "--yes")
    assert (code, output) == (0, "Discarded: 1 of 1 letters\n")
    assert (await of(machine.database, other))["decision_reason"] == "all of them"


async def test_json_output_is_the_same_as_the_api(machine: LetterMachine) -> None:
    letter_id = await bury(machine.database, b'{"name": "Ana"}')
    code, output, _ = await machine.run("groups", "--json")
    assert (code, json.loads(output)["items"][0]["count"]) == (0, 1)
    code, output, _ = await machine.run("list", "--json")
    (item,) = json.loads(output)["items"]
    assert (code, item["id"], item["shape"]) == (0, str(letter_id), {"name": "[text]"})
    code, output, _ = await machine.run("show", letter_id, "--json")
    assert (code, json.loads(output)["body"]) == (0, {"form": "json", "value": {"name": "Ana"}})


async def test_foreign_text_cannot_control_the_terminal(machine: LetterMachine) -> None:
    letter_id = await bury(
        machine.database, b'{"a": "\x1b[31m[red]', reason="\x1b]0;x\x07[bold]", key="\x1b[2J"
    )
    for arguments in (["groups"], ["list"], ["show", letter_id]):
        code, output, _ = await machine.run(*arguments)
        assert code == 0
        assert "\x1b]" not in output
        assert "\x1b[2J" not in output
        assert "\x1b[31m" not in output
        assert "[bold]" in output


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["replay"], 2, "--all"),
        (["replay", "--state", "lost"], 2, "waiting"),
        (["replay", str(uuid4())], 1, "no letter"),
        (["replay", str(uuid4()), "--queue", "x"], 2, "not both"),
        (["list", "--died-after", "yesterday"], 2, "yesterday"),
        (["show", "7"], 2, "UUID"),
        (["edit", str(uuid4()), "--file", "nowhere.json"], 2, "nowhere.json"),
        (["replay", "--all", "--rate", "0"], 2, "rate"),
    ],
)
async def test_invalid_arguments_are_refused_with_the_remedy(
    machine: LetterMachine, arguments: list[str], code: int, word: str
) -> None:
    found, output, complaint = await machine.run(*arguments)
    assert (found, output) == (code, "")
    assert word in complaint
    assert "Traceback" not in complaint


async def test_missing_schema_and_unreachable_server_differ(machine: LetterMachine, stack: Stack) -> None:
    machine.url = await stack.new_database(f"letters-{uuid4().hex[:8]}")
    code, _, complaint = await machine.run("groups")
    assert (code, "catraca migrate" in complaint) == (2, True)
    machine.url = "postgresql://catraca:hush@127.0.0.1:1/catraca"
    code, _, complaint = await machine.run("groups")
    assert (code, "127.0.0.1:1" in complaint, "hush" in complaint) == (1, True, False)
    assert await stored(machine.database) == []
