"""Letters of the schema without states."""

import shutil
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from catraca.platform.database import migrations
from tests.servers import Stack

BODIES = {
    b'{"a": 1}': True,
    b"null": True,
    b'"\\ud800\\u0000"': True,
    b"{": False,
    b"": False,
    b"\xff": False,
}


async def test_letters_of_an_older_version_wait(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await stack.new_database(f"older_{uuid4().hex[:8]}")
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for newer in sorted((folder / "versions").glob("0*_*.py"))[3:]:
        newer.unlink()
    with monkeypatch.context() as older:
        older.setattr(migrations, "FOLDER", folder)
        assert (await migrations.migrate(url))[-1] == "0003"
    connection = await asyncpg.connect(url)
    for body in BODIES:
        await connection.execute(
            "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
            " VALUES (gen_random_uuid(), 'q', gen_random_uuid(), 'e', 'k', 'r', '{}', $1)",
            body,
        )
    await migrations.migrate(url)
    rows = await connection.fetch("SELECT * FROM dead_letters")
    await connection.close()
    assert {row["body"]: row["is_json"] for row in rows} == BODIES
    assert {(row["state"], row["version"], row["decided_at"]) for row in rows} == {("waiting", 1, None)}
