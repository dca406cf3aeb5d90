"""The six edge cases of accepting a ride, numbered as in the specification."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.database import Database
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.rides.attempts import all_at_once, attempt_at, codes, waiting_for_locks
from tests.domains.rides.desk import Desk
from tests.domains.rides.redis_desk import RedisDesk
from tests.servers import Stack, until
from tests.storms.commit_gate import CommitGate, open_gate
from tests.support.http import line_to, served

KEY = uuid4().hex


@dataclass
class BehindGate(Desk):
    """A desk at an API whose COMMITs can be stopped."""

    commits: CommitGate


@asynccontextmanager
async def behind_gate(stack: Stack, parts: Parts) -> AsyncIterator[BehindGate]:
    async with open_gate(stack.database_url) as commits:
        database = await Database.open(commits.url)
        async with served(replace(parts, database=database)) as api, api.client() as client:
            yield BehindGate(client, parts.database, commits)
        await database.close()


@pytest.fixture
async def gate(stack: Stack, parts: Parts) -> AsyncIterator[BehindGate]:
    async with behind_gate(stack, parts) as desk:
        yield desk


@asynccontextmanager
async def about_to_be_accepted(desk: Desk, ride_id: UUID) -> AsyncIterator[None]:
    """While the block runs, an acceptance waits at its last statement, for the timer's row."""
    async with desk.database.transaction() as db:
        await db.execute("SELECT FROM timers WHERE subject_id = $1 FOR UPDATE", ride_id)
        yield


async def test_1_lost_redis_keys_give_no_second_winner(redis_desk: RedisDesk, desk: Desk) -> None:
    """Redis loses all keys during the first accept; a second driver accepts through another API."""
    ride_id, (first_id, second_id) = await redis_desk.offered(2)
    async with about_to_be_accepted(redis_desk, ride_id):
        first = asyncio.create_task(redis_desk.accept(ride_id, first_id))
        await until(lambda: waiting_for_locks(redis_desk))
        await redis_desk.server.command("FLUSHALL")
        second = asyncio.create_task(desk.accept(ride_id, second_id))

        async def both_wait() -> bool:
            return await waiting_for_locks(redis_desk) == 2

        await until(both_wait)
    assert ((await first).status_code, (await second).status_code) == (200, 409)
    assert (await redis_desk.read(ride_id))["driver_id"] == str(first_id)


async def test_1_key_of_another_driver_in_redis_blocks_no_ride(redis_desk: RedisDesk) -> None:
    """The specification's cache names a driver whose transaction was rolled back; nothing reads it."""
    ride_id, (first_id, second_id) = await redis_desk.offered(2)
    await redis_desk.server.command("SET", f"ride:{ride_id}:accepted_by", str(first_id))
    assert (await redis_desk.accept(ride_id, second_id)).status_code == 200
    assert (await redis_desk.accept(ride_id, first_id)).status_code == 409


async def test_2_death_before_commit_changes_nothing(gate: BehindGate, desk: Desk) -> None:
    ride_id, (driver_id, other_id) = await desk.offered(2)
    stop = gate.commits.stop_commit("before", of=KEY.encode())
    accepting = asyncio.create_task(gate.accept(ride_id, driver_id, KEY))
    await stop.reached_by(accepting)
    stop.lose()
    lost = await accepting
    assert (lost.status_code, lost.json()["code"]) == (503, "outcome_unknown")
    assert await desk.status(ride_id) == "OFFERED"
    assert await desk.attempts(ride_id) == []
    assert await desk.event_keys(ride_id) == ["ride.requested"]
    assert (await gate.accept(ride_id, driver_id, KEY)).status_code == 200
    assert (await gate.accept(ride_id, other_id)).status_code == 409
    assert await desk.event_keys(ride_id) == ["ride.requested", "ride.accepted"]


async def test_2_death_after_commit_changes_the_ride_once(gate: BehindGate, desk: Desk) -> None:
    ride_id, (driver_id, other_id) = await desk.offered(2)
    stop = gate.commits.stop_commit("after", of=KEY.encode())
    accepting = asyncio.create_task(gate.accept(ride_id, driver_id, KEY))
    await stop.reached_by(accepting)
    stop.lose()
    assert (await accepting).json()["code"] == "outcome_unknown"
    ride = await desk.read(ride_id)
    assert (ride["status"], ride["driver_id"]) == ("ACCEPTED", str(driver_id))
    again = await gate.accept(ride_id, driver_id, KEY)
    assert (again.status_code, again.json()["accepted_at"]) == (200, ride["accepted_at"])
    assert (await gate.accept(ride_id, other_id)).status_code == 409
    assert [one["status"] for one in await desk.attempts(ride_id)] == ["SUCCESS", "FAILED"]
    assert await desk.event_keys(ride_id) == ["ride.requested", "ride.accepted"]


async def test_commit_gate_stops_the_transaction_that_decides(gate: BehindGate, desk: Desk) -> None:
    """While another process has locked the ride, the attempt commits a transaction that decides nothing."""
    ride_id, (driver_id, other_id) = await desk.offered(2)
    stop = gate.commits.stop_commit("after", of=KEY.encode())
    async with desk.database.transaction() as db:
        await db.execute("SELECT FROM rides WHERE id = $1 FOR NO KEY UPDATE", ride_id)
        accepting = asyncio.create_task(gate.accept(ride_id, driver_id, KEY))
        await until(lambda: waiting_for_locks(desk))
        assert not stop.is_reached
    await stop.reached_by(accepting)
    stop.lose()
    assert (await accepting).json()["code"] == "outcome_unknown"
    assert (await desk.accept(ride_id, other_id)).status_code == 409
    assert (await desk.accept(ride_id, driver_id, KEY)).status_code == 200


async def test_3_one_of_two_simultaneous_drivers_wins(desk: Desk) -> None:
    ride_id, drivers = await desk.offered(2)
    acceptance = Acceptance(desk.database)
    outcomes = await all_at_once(acceptance, *(attempt_at(ride_id, driver) for driver in drivers))
    assert Counter(codes(outcomes)) == {"AcceptedRide": 1, "ride_already_accepted": 1}
    first, second = await desk.attempts(ride_id)
    assert first["attempt_at"] == second["attempt_at"], "to the microsecond"


async def test_4_ride_cannot_be_paid_before_it_is_completed(desk: Desk) -> None:
    """Not even by SQL."""
    passenger_id = uuid4()
    ride_id, (driver_id,) = await desk.offered(passenger_id=passenger_id)
    await _cannot_be_paid(desk, ride_id)
    await desk.accept(ride_id, driver_id)
    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await desk.drive_to(status, ride_id, driver_id)
        await _cannot_be_paid(desk, ride_id)
        assert await desk.status(ride_id) == status


async def _cannot_be_paid(desk: Desk, ride_id: UUID) -> None:
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        async with desk.database.transaction() as db:
            await db.execute(
                "UPDATE rides SET status = 'PAID', version = version + 1, final_fare_cents = 1,"
                " accepted_driver_id = coalesce(accepted_driver_id, gen_random_uuid()),"
                " accepted_at = coalesce(accepted_at, now()) WHERE id = $1",
                ride_id,
            )
            await db.execute(
                "INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)"
                " SELECT ride_id, seq + 1, to_status, 'PAID', round, 'system', 'ride.paid' FROM ride_events"
                " WHERE ride_id = $1 ORDER BY seq DESC LIMIT 1",
                ride_id,
            )


async def test_5_app_closed_before_the_answer_finds_its_ride(desk: Desk, parts: Parts) -> None:
    ride_id, (driver_id,) = await desk.offered()
    driver = bearer("driver", driver_id)
    body = f'{{"driver_id": "{driver_id}"}}'.encode()
    head = (
        f"POST /rides/{ride_id}/accept HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
        f"authorization: {driver['authorization']}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    active = await desk.api.get(f"/drivers/{driver_id}/active-ride", headers=driver)
    assert active.status_code == 204
    async with served(parts) as api, line_to(api) as line:
        async with about_to_be_accepted(desk, ride_id):
            line.send(head, body)
            await until(lambda: waiting_for_locks(desk))
            await line.hang_up()

        async def found() -> bool:
            answer = await desk.api.get(f"/drivers/{driver_id}/active-ride", headers=driver)
            return answer.status_code == 200 and answer.json()["ride_id"] == str(ride_id)

        await until(found)
    for path in ("/drivers", "/v1/drivers"):
        active = await desk.api.get(f"{path}/{driver_id}/active-ride", headers=driver)
        assert (active.json()["status"], active.json()["seen_as"]) == ("ACCEPTED", "driver")
    # The app repeats its request and gets the answer it missed.
    again = await desk.accept(ride_id, driver_id)
    assert again.json()["accepted_at"] == active.json()["accepted_at"]


async def test_6_accepted_ride_is_visible_at_once_in_every_process(desk: Desk, parts: Parts) -> None:
    async with served(parts) as elsewhere, elsewhere.client() as client:
        other = Desk(client, desk.database)
        for _ in range(2):
            passenger_id = uuid4()
            ride_id, (driver_id,) = await desk.offered(passenger_id=passenger_id)
            assert (await desk.accept(ride_id, driver_id)).status_code == 200
            driver, passenger = bearer("driver", driver_id), bearer("passenger", passenger_id)
            for reader in (driver, passenger, desk.operator):
                assert (await other.read(ride_id, reader))["status"] == "ACCEPTED"
            active = await client.get(f"/drivers/{driver_id}/active-ride", headers=driver)
            assert active.json()["ride_id"] == str(ride_id)
            listed = (await client.get("/v1/rides", headers=passenger)).json()["rides"]
            assert [(ride["ride_id"], ride["status"]) for ride in listed] == [(str(ride_id), "ACCEPTED")]
            await desk.drive_to("COMPLETED", ride_id, driver_id)
            gone = await client.get(f"/drivers/{driver_id}/active-ride", headers=driver)
            assert gone.status_code == 204
