"""`catraca charges explain`, on a real database."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.platform.database import Database
from catraca.roles.parts import Parts
from tests.cli.shell import Machine
from tests.domains.billing.till import Till
from tests.servers import Stack
from tests.support.http import served

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class Office(Machine):
    """A database with charges, and the command on it."""

    command = ("charges", "explain")
    till: Till


@pytest.fixture
async def office(stack: Stack, parts: Parts, tmp_path: Path) -> AsyncIterator[Office]:
    url = await stack.migrated_database(f"charges-{uuid4().hex[:8]}")
    database = await Database.open(url)
    async with served(replace(parts, database=database)) as api, api.client() as client:
        yield Office(url, tmp_path, Till(client, database))
    await database.close()


async def test_charge_is_explained_by_its_id_or_that_of_its_ride(office: Office) -> None:
    ride_id, driver_id = await office.till.charged()
    await office.till.confirm(ride_id, driver_id)
    charge = await office.till.charge_row(ride_id)
    code, output, complaint = await office.run(ride_id, "--json")
    assert (code, complaint) == (0, "")
    assert [(line["kind"], line["what"], line["detail"]) for line in json.loads(output)["lines"]] == [
        ("step", "PENDING", "system"),
        ("posting", "charge_opened", "receivable to unearned"),
        ("capture", "cash", str(charge["id"])),
        ("posting", "cash_captured", "driver to receivable"),
        ("posting", "cash_captured", "unearned to driver"),
        ("posting", "cash_captured", "unearned to commission"),
        ("step", "PAID", "driver"),
    ]
    assert (await office.run(charge["id"], "--json"))[1] == output
    code, output, _ = await office.run(charge["id"])
    fare = f"{charge['amount_cents'] / 100:,.2f}"
    assert code == 0
    assert f"{fare} of {fare} BRL paid" in output
    assert "driver to receivable" in output


async def test_unknown_charge_is_one_line(office: Office) -> None:
    code, output, complaint = await office.run(uuid4())
    assert (code, output) == (2, "")
    assert len(complaint.splitlines()) == 1
