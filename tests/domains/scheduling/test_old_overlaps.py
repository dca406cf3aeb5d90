"""Appointments of one client that overlapped before the constraint came survive its migration."""

import importlib.util
from pathlib import Path
from uuid import uuid4

from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.scheduling.clinic import open_clinic
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts

VERSIONS = Path(__file__).parents[3] / "migrations" / "versions"
NAME = "one_place_at_a_time"


def statements() -> list[str]:
    """The SQL of the migration, the part about appointments first."""
    (path,) = VERSIONS.glob(f"*_{NAME}.py")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = []
    module.run_sql = found.append
    module.upgrade()
    return found


async def test_old_overlapping_appointments_survive_the_migration(stack: Stack, settings: Settings) -> None:
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as api:
        clinic = await open_clinic(api, parts)
        client, other = uuid4(), await clinic.worker()
        await api.get("/v1/me", headers=bearer("passenger", client))
        body = clinic.wish(clinic.at("09:30"), worker_id=other, client={"user_id": str(client)})
        operators = await clinic.call("POST", "/appointments", body)
        await clinic.sql("ALTER TABLE appointments DROP CONSTRAINT no_client_is_in_two_places")
        own = [await clinic.booked(client, clinic.at(clock)) for clock in ("09:00", "11:00", "12:00")]
        overlapping = await clinic.booked(client, clinic.at("11:30"), worker_id=other)
        await clinic.sql("ALTER TABLE appointments DROP COLUMN made_by_operator")
        await clinic.sql("DROP FUNCTION client_box, client_point")
        async with parts.database.transaction() as db:
            await db.execute(statements()[0])
        rows = await clinic.sql("SELECT id, made_by_operator FROM appointments WHERE status = 'BOOKED'")
        marked = {str(row["id"]): row["made_by_operator"] for row in rows}
        assert marked == {
            operators["appointment_id"]: True,
            overlapping["appointment_id"]: True,
            **{one["appointment_id"]: False for one in own},
        }
        refused = await clinic.book(client, clinic.at("09:00"), worker_id=await clinic.worker())
        assert refused.json()["code"] == "client_busy"
