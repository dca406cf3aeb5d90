"""A generated Python client drives a ride and a booking through a running API."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.conftest import bearer
from tests.servers import on_one_stack

PACKAGE = "catraca_client"

pytestmark = [pytest.mark.long, on_one_stack, pytest.mark.xdist_group("python client")]


@pytest.fixture(scope="module")
async def generated(tools: Path, document_file: Path) -> AsyncIterator[Any]:
    """The generated package. A warning of the generator, such as a dropped operation, fails the tests."""
    folder = document_file.parent
    process = await asyncio.create_subprocess_exec(
        tools / "python/bin/openapi-python-client",
        "generate",
        f"--path={document_file}",
        f"--config={Path(__file__).with_name('generator.yaml')}",
        f"--output-path={folder / PACKAGE}",
        "--meta=none",
        "--fail-on-warning",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module(PACKAGE)
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


class Caller:
    """Calls operations by their tag and id, with one token or none."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __call__(self, operation: str, *path: UUID, status: int = 200, **arguments: Any) -> Any:
        module = importlib.import_module(f"{PACKAGE}.api.{operation}")
        answer = await module.asyncio_detailed(*path, client=self._client, **arguments)
        assert answer.status_code == status, answer.content
        return answer.parsed


@asynccontextmanager
async def caller(generated: Any, url: str, role: str, user_id: UUID | None = None) -> AsyncIterator[Caller]:
    token = bearer(role, user_id)["authorization"].removeprefix("Bearer ")
    client = generated.AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
    async with client:
        yield Caller(client)


async def test_generated_client_drives_a_ride(generated: Any, api_url: str) -> None:
    models = importlib.import_module(f"{PACKAGE}.models")
    driver_id = uuid4()
    async with (
        caller(generated, api_url, "passenger") as passenger,
        caller(generated, api_url, "driver", driver_id) as driver,
        caller(generated, api_url, "operator") as operator,
    ):
        assert (await driver("me.read_me")).id == driver_id
        place = {
            "pickup_lat": -12.9777,
            "pickup_lon": -38.5016,
            "dropoff_lat": -13.0102,
            "dropoff_lon": -38.5326,
        }
        ride = await passenger("rides.request_ride", status=201, body=models.RideIn(**place))
        body = models.OffersIn(driver_ids=[driver_id])
        made = await operator("rides.offer_ride", ride.ride_id, status=201, body=body)
        assert [offer.driver_id for offer in made.offers] == [driver_id]
        accepted = await driver("rides.accept_ride", ride.ride_id, body=models.AcceptIn())
        assert (accepted.status, accepted.driver_id) == ("ACCEPTED", driver_id)
        await driver("rides.arrive", ride.ride_id)
        await driver("rides.start", ride.ride_id)
        await driver("rides.complete", ride.ride_id, body=models.CompleteIn())
        done = await passenger("rides.read_ride", ride.ride_id)
        assert (done.status, done.driver_id) == ("COMPLETED", driver_id)
        assert done.final_fare_cents > 0
        again = await driver("rides.start", ride.ride_id, status=409)
        assert again.code == "ride_move_not_allowed"


async def test_generated_client_drives_a_booking(generated: Any, api_url: str) -> None:
    models = importlib.import_module(f"{PACKAGE}.models")
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    day = {"from_": tomorrow, "to": tomorrow + timedelta(days=1)}
    async with (
        caller(generated, api_url, "operator") as operator,
        caller(generated, api_url, "passenger") as client,
    ):
        new_worker = models.WorkerIn(name="Ana", time_zone="UTC")
        worker = await operator("scheduling.create_worker", status=201, body=new_worker)
        new_service = models.ServiceIn(name="Massagem", duration_minutes=60)
        service = await operator("scheduling.create_service", status=201, body=new_service)
        rules = [models.RuleIn(start="09:00", end="12:00", weekday=weekday) for weekday in range(1, 8)]
        await operator("scheduling.set_rules", worker.worker_id, body=rules)
        services = models.ServiceIdsIn(service_ids=[service.service_id])
        await operator("scheduling.set_worker_services", worker.worker_id, body=services)
        free = await client("scheduling.list_slots", service_id=service.service_id, **day)
        assert [slot.starts_at.hour for slot in free.slots] == [9, 10, 11]
        wish = models.AppointmentIn(
            service_id=service.service_id, worker_id=worker.worker_id, starts_at=free.slots[0].starts_at
        )
        booked = await client("scheduling.book_appointment", status=201, body=wish)
        taken = await client("scheduling.book_appointment", status=409, body=wish)
        assert taken.code == "slot_taken"
        reason = models.CancelAppointmentIn(reason="Viagem")
        canceled = await client("scheduling.cancel_appointment", booked.appointment_id, body=reason)
        assert (canceled.status, canceled.cancel_reason) == ("CANCELED", "Viagem")


async def test_generated_client_needs_no_token_for_public_operations(generated: Any, api_url: str) -> None:
    models = importlib.import_module(f"{PACKAGE}.models")
    async with generated.Client(base_url=api_url, raise_on_unexpected_status=True) as client:
        anonymous = Caller(client)
        assert (await anonymous("health.readyz")).status == "ready"
        email = f"{uuid4()}@example.com"
        taken = await anonymous("sign_up.sign_up", body=models.SignUpIn(name="Ana", email=email))
    async with generated.AuthenticatedClient(base_url=api_url, token=taken.status_token) as client:
        assert (await Caller(client)("sign_up.read_status", taken.id)).status == "queued"
