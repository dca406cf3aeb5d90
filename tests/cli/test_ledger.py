"""`catraca ledger` on a real database; exports are checked by Beancount."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from catraca.domains import billing
from catraca.domains.billing.export import service
from catraca.domains.billing.export.service import export_ledger
from catraca.domains.billing.ledger.model import Account, Posting, Transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.platform.database import Database
from tests.cli.shell import Machine
from tests.servers import Stack

TRANSFERS = 30
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class Office(Machine):
    """A database, and the command on it."""

    command = ("ledger",)
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
    code, output, complaint = await office.run("check")
    assert (code, complaint) == (0, "")
    assert output.count("held") == len(billing.INVARIANTS)
    assert "Nothing has been posted yet." in output
    await post(office, 123_456)
    code, output, _ = await office.run("check")
    assert code == 0
    rows = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in output.splitlines() if "│" in line}
    assert [cell.strip() for cell in rows["receivable"]] == ["BRL", "1,234.56", "0.00", "1,234.56"]
    assert [cell.strip() for cell in rows["unearned"]] == ["BRL", "0.00", "1,234.56", "-1,234.56"]


async def test_broken_rule_fails_the_command(office: Office) -> None:
    await post(office, 100)
    async with office.database.connection() as db:
        await db.execute("ALTER TABLE ledger_transfers DISABLE TRIGGER transfers_are_append_only")
        await db.execute("UPDATE ledger_transfers SET total_cents = 99")
    code, output, _ = await office.run("check", "--json")
    document = json.loads(output)
    broken = {rule["name"] for rule in document["rules"] if rule["state"] == "broken"}
    assert (code, document["ok"]) == (1, False)
    assert broken == {"transfers are append-only", "postings add up"}
    assert {one["kind"]: one["debits_cents"] - one["credits_cents"] for one in document["accounts"]} == {
        "receivable": 100,
        "unearned": -100,
    }


async def fill(office: Office) -> None:
    """Charges and captures of a driver, in two currencies."""
    driver_id = uuid4()
    async with office.database.connection() as db:
        await db.execute("INSERT INTO users (id, roles) VALUES ($1, '{driver}')", driver_id)
    for number in range(1, TRANSFERS + 1):
        await office.database.run(
            lambda db, number=number: post_transfer(db, captured(driver_id, number))  # type: ignore[misc]
        )


def captured(driver_id: UUID, cents: int) -> Transfer:
    return Transfer(
        kind="bank_captured",
        cause_id=uuid4(),
        currency="BRL" if cents % 2 else "EUR",
        postings=(
            Posting(Account("bank"), Account("receivable"), cents),
            Posting(Account("bank"), Account("suspense"), 7),
            Posting(Account("unearned"), Account("driver", driver_id), cents),
        ),
    )


def bean_check(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    file = folder / "ledger.beancount"
    file.write_text(text)
    return subprocess.run(
        [Path(sys.executable).with_name("bean-check"), file], capture_output=True, text=True, check=False
    )


async def test_beancount_accepts_the_ledger(office: Office) -> None:
    await fill(office)
    code, output, complaint = await office.run("export", "--format", "beancount")
    assert (code, complaint) == (0, "")
    assert output.count(' * "bank_captured"') == TRANSFERS
    checked = bean_check(output, office.folder)
    assert (checked.returncode, checked.stderr) == (0, "")


async def test_beancount_finds_a_wrong_posting(office: Office) -> None:
    await fill(office)
    _, output, _ = await office.run("export", "--format", "beancount")
    without_one = output.replace("  Assets:Bank 0.30 EUR\n", "  Assets:Bank 0.31 EUR\n", 1)
    assert without_one != output
    assert bean_check(without_one, office.folder).returncode == 1


async def test_csv_has_every_posting(office: Office) -> None:
    await fill(office)
    code, output, _ = await office.run("export")
    rows = list(csv.DictReader(io.StringIO(output)))
    assert code == 0
    assert len(rows) == 3 * TRANSFERS
    assert sum(int(row["cents"]) for row in rows) == TRANSFERS * (TRANSFERS + 1) + 7 * TRANSFERS
    assert {(row["debit"], row["credit"], row["n"]) for row in rows} == {
        ("bank", "receivable", "1"),
        ("bank", "suspense", "2"),
        ("unearned", "driver", "3"),
    }


@pytest.mark.parametrize("page", [4, 5, 6, 9])
async def test_pages_keep_transfers_whole(office: Office, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(office)
    monkeypatch.setattr(service, "PAGE", page)
    written: list[str] = []
    told: list[tuple[int, int]] = []
    await office.database.run(
        lambda db: export_ledger(db, "beancount", written.append, lambda *counts: told.append(counts))
    )
    assert bean_check("".join(written), office.folder).stderr == ""
    assert told[-1] == (3 * TRANSFERS, 3 * TRANSFERS)


async def test_empty_ledger_is_exported(office: Office) -> None:
    code, output, _ = await office.run("export", "--format", "beancount")
    assert (code, bean_check(output, office.folder).returncode) == (0, 0)
    code, output, _ = await office.run("export")
    assert (code, output.count("\n")) == (0, 1)
