"""`catraca ledger check`, on a real database."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.domains import billing
from catraca.domains.billing.ledger.model import Account, Posting, Transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.platform.database import Database
from tests.cli.shell import Machine
from tests.servers import Stack

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class Office(Machine):
    """A database, and the command on it."""

    command = ("ledger", "check")
    database: Database


@pytest.fixture
async def office(stack: Stack, tmp_path: Path) -> AsyncIterator[Office]:
    url = await stack.migrated_database(f"ledger-{uuid4().hex[:8]}")
    database = await Database.open(url)
    yield Office(url, tmp_path, database)
    await database.close()


async def post(office: Office, cents: int) -> None:
    transfer = Transfer(
        kind="charge_opened",
        cause_id=uuid4(),
        currency="BRL",
        postings=(Posting(Account("receivable"), Account("unearned"), cents),),
    )
    await office.database.run(lambda db: post_transfer(db, transfer))


async def test_sound_ledger_is_printed_with_its_sums(office: Office) -> None:
    code, output, complaint = await office.run()
    assert (code, complaint) == (0, "")
    assert output.count("held") == len(billing.INVARIANTS)
    assert "Nothing has been posted yet." in output
    await post(office, 123_456)
    code, output, _ = await office.run()
    assert code == 0
    rows = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in output.splitlines() if "│" in line}
    assert [cell.strip() for cell in rows["receivable"]] == ["BRL", "1,234.56", "0.00", "1,234.56"]
    assert [cell.strip() for cell in rows["unearned"]] == ["BRL", "0.00", "1,234.56", "-1,234.56"]


async def test_broken_rule_fails_the_command(office: Office) -> None:
    await post(office, 100)
    async with office.database.connection() as db:
        await db.execute("ALTER TABLE ledger_transfers DISABLE TRIGGER transfers_are_append_only")
        await db.execute("UPDATE ledger_transfers SET total_cents = 99")
    code, output, _ = await office.run("--json")
    document = json.loads(output)
    broken = {rule["name"] for rule in document["rules"] if rule["state"] == "broken"}
    assert (code, document["ok"]) == (1, False)
    assert broken == {"transfers are append-only", "postings add up"}
    assert {one["kind"]: one["debits_cents"] - one["credits_cents"] for one in document["accounts"]} == {
        "receivable": 100,
        "unearned": -100,
    }
