"""`catraca scheduling audit-time-zones`: appointments moved by new zone rules, on a real database."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from catraca.domains.scheduling import TZDATA_VERSION
from catraca.domains.scheduling.time_zone_audit.store import PAGE_ROWS
from catraca.platform.database import Database
from tests.cli.shell import Machine
from tests.domains.scheduling.clocks import next_switch
from tests.servers import Stack

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")

BAHIA, NEW_YORK = "America/Bahia", "America/New_York"
HOUR = timedelta(hours=1)
# A future day, 09:00 in Bahia, which has no clock changes.
NINE = datetime.fromisoformat(f"{datetime.now(UTC).year + 1}-06-01T09:00")
AT_NINE = NINE.replace(tzinfo=ZoneInfo(BAHIA))


@dataclass
class ClockMachine(Machine):
    """A database with a worker and a service, and the command on it."""

    command = ("scheduling", "audit-time-zones")
    database: Database
    worker_id: UUID
    service_id: UUID

    async def insert(
        self,
        starts_at: datetime,
        local: datetime,
        *,
        zone: str = BAHIA,
        version: str = "1999z",
        count: int = 1,
        status: str = "BOOKED",
    ) -> list[UUID]:
        """Insert `count` appointments, one per hour, from `starts_at` and from local time `local`."""
        async with self.database.transaction() as db:
            rows = await db.fetch(
                "WITH planned AS ("
                "   SELECT gen_random_uuid() AS id, gen_random_uuid() AS session_id, w.no, starts_at,"
                "     starts_at + interval '1 hour' AS ends_at,"
                "     $2::timestamp + n * interval '1 hour' AS local"
                "   FROM subjects w CROSS JOIN generate_series(0, $3 - 1) AS n"
                "   CROSS JOIN LATERAL (SELECT $1::timestamptz + n * interval '1 hour' AS starts_at) AS one"
                "   WHERE w.id = $4),"
                " claimed AS ("
                "   INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, service_id, begins_at,"
                "     finishes_at, capacity)"
                "   SELECT session_id, no, starts_at, ends_at, 'session', $5, starts_at, ends_at, 1"
                "   FROM planned)"
                " INSERT INTO appointments (id, service_id, worker_no, client_name, status, session_id,"
                "   seat_no, capacity, starts_at, ends_at, local_starts_at, time_zone, tzdata_version)"
                " SELECT id, $5, no, 'Jorge', $8, session_id, 1, 1, starts_at, ends_at, local, $6, $7"
                " FROM planned RETURNING id",
                starts_at,
                local,
                count,
                self.worker_id,
                self.service_id,
                zone,
                version,
                status,
            )
        return [row["id"] for row in rows]


@pytest.fixture(scope="module")
async def url(stack: Stack) -> str:
    return await stack.migrated_database(f"clocks-{uuid4().hex[:8]}")


@pytest.fixture
async def machine(url: str, tmp_path: Path) -> AsyncIterator[ClockMachine]:
    database = await Database.open(url)
    worker_id, service_id = uuid4(), uuid4()
    async with database.transaction() as db:
        await db.execute("TRUNCATE subjects, services CASCADE")
        await db.execute(
            "INSERT INTO subjects (id, kind, name, time_zone) VALUES ($1, 'worker', 'Ana', $2)",
            worker_id,
            BAHIA,
        )
        await db.execute(
            "INSERT INTO services (id, name, duration_minutes, buffer_before_minutes, buffer_after_minutes,"
            "   min_notice_minutes, horizon_days, slot_step_minutes, capacity)"
            " VALUES ($1, 'Consulta', 60, 0, 0, 0, 60, 60, 1)",
            service_id,
        )
    yield ClockMachine(url, tmp_path, database, worker_id, service_id)
    await database.close()


async def test_unmoved_appointments_are_not_reported(machine: ClockMachine) -> None:
    await machine.insert(AT_NINE, NINE, count=3)
    output = f"0 are not at the time agreed on, by the rules of tzdata {TZDATA_VERSION}.\n"
    assert await machine.run() == (0, output, "")
    assert await machine.run("--json") == (0, "", "")


async def test_appointments_moved_by_new_zone_rules_are_reported(machine: ClockMachine) -> None:
    await machine.insert(AT_NINE, NINE)
    # The zone rules at booking gave an offset one hour less, and half an hour more.
    later, earlier = AT_NINE + 25 * HOUR, AT_NINE + 47.5 * HOUR
    (first,) = await machine.insert(later, NINE + 24 * HOUR)
    (second,) = await machine.insert(earlier, NINE + 48 * HOUR, status="CONFIRMED", version="2001a")
    code, output, complaint = await machine.run()
    assert (code, complaint) == (1, "")
    rows = {line.split("│")[1].strip(): line for line in output.splitlines() if line.count("│") > 6}
    assert set(rows) == {str(first), str(second)}
    cells = [cell.strip() for cell in rows[str(first)].split("│")[2:-1]]
    agreed, shown = NINE + 24 * HOUR, NINE + 25 * HOUR
    assert cells == [
        str(machine.worker_id),
        f"{agreed:%Y-%m-%d %H:%M}",
        BAHIA,
        "1999z",
        f"{shown:%Y-%m-%d %H:%M}",
        "+1:00",
    ]
    assert rows[str(second)].rstrip(" │").endswith("-0:30")
    assert output.splitlines()[-1].startswith("2 are not at the time agreed on")


async def test_json_output_is_one_line_per_appointment(machine: ClockMachine) -> None:
    (moved,) = await machine.insert(AT_NINE + HOUR, NINE)
    code, output, complaint = await machine.run("--json")
    assert (code, complaint) == (1, "")
    (row,) = [json.loads(line) for line in output.splitlines()]
    assert datetime.fromisoformat(row.pop("starts_at")) == AT_NINE + HOUR
    assert datetime.fromisoformat(row.pop("would_start_at")) == AT_NINE
    assert row == {
        "appointment_id": str(moved),
        "worker_id": str(machine.worker_id),
        "status": "BOOKED",
        "time_zone": BAHIA,
        "tzdata_version": "1999z",
        "local_starts_at": NINE.isoformat(),
        "shown": (NINE + HOUR).isoformat(),
        "off_by_minutes": 60,
    }


async def test_wrong_moment_is_reported_for_any_tzdata_version(machine: ClockMachine) -> None:
    await machine.insert(AT_NINE + HOUR, NINE, version=TZDATA_VERSION)
    assert (await machine.run())[0] == 1


async def test_both_readings_of_a_repeated_hour_are_accepted(machine: ClockMachine) -> None:
    night = next_switch(NEW_YORK, back=True)
    local = datetime.fromisoformat(f"{night}T01:30")
    for fold in (0, 1):
        await machine.insert(local.replace(tzinfo=ZoneInfo(NEW_YORK), fold=fold), local, zone=NEW_YORK)
    assert (await machine.run("--json"))[:2] == (0, "")


async def test_past_and_canceled_appointments_are_not_reported(machine: ClockMachine) -> None:
    await machine.insert(datetime.now(UTC).replace(microsecond=0) - HOUR, NINE)
    (canceled,) = await machine.insert(AT_NINE + HOUR, NINE)
    assert (await machine.run("--json"))[0] == 1
    async with machine.database.transaction() as db:
        await db.execute(
            "UPDATE appointments SET status = 'CANCELED', session_id = NULL, seat_no = NULL,"
            " canceled_by = 'client' WHERE id = $1",
            canceled,
        )
    assert (await machine.run("--json"))[:2] == (0, "")


async def test_unknown_zone_is_reported(machine: ClockMachine) -> None:
    (lost,) = await machine.insert(AT_NINE, NINE, zone="Atlantis/Poseidonis")
    code, output, _ = await machine.run("--json")
    row = json.loads(output)
    assert (code, row["appointment_id"], row["shown"], row["off_by_minutes"]) == (1, str(lost), None, None)
    assert "unknown zone" in (await machine.run())[1]


async def test_large_result_is_counted_and_its_first_rows_shown(machine: ClockMachine) -> None:
    count = PAGE_ROWS + 5
    moved = await machine.insert(AT_NINE + HOUR, NINE, count=count)
    code, output, _ = await machine.run("--json")
    assert (code, {json.loads(line)["appointment_id"] for line in output.splitlines()}) == (
        1,
        {str(one) for one in moved},
    )
    code, output, _ = await machine.run()
    assert code == 1
    assert output.count("+1:00") == 50
    assert output.splitlines()[-2:] == [
        f"... and {count - 50:,} more: see --json",
        f"{count:,} are not at the time agreed on, by the rules of tzdata {TZDATA_VERSION}.",
    ]
