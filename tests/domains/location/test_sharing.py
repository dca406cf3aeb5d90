"""Links to a trip: creation and revocation, and their content before, during and after the ride."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains.location.sharing.service import share_trip
from catraca.domains.location.sharing.store import prune_shares
from catraca.domains.rides import RideId
from catraca.domains.rides.trips.service import cancel_ride
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.errors import Refusal
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, Town, redis_stopped, spot
from tests.domains.people.person import Person
from tests.domains.rides.desk import SE
from tests.servers import until
from tests.support.http import served

HOUR = timedelta(hours=1)


async def try_to_share(
    town: Town, ride_id: UUID, headers: dict[str, str], body: dict[str, Any] | None = None
) -> httpx.Response:
    return await town.api.post(f"/v1/rides/{ride_id}/shares", headers=headers, json=body)


async def share(town: Town, ride_id: UUID, passenger_id: UUID, **body: Any) -> Any:
    answer = await try_to_share(town, ride_id, bearer("passenger", passenger_id), body or None)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(town: Town, ride_id: UUID, headers: dict[str, str] | None = None) -> list[Any]:
    answer = await town.api.get(f"/v1/rides/{ride_id}/shares", headers=headers or bearer("operator"))
    assert answer.status_code == 200, answer.text
    return answer.json()["shares"]


async def revoke(town: Town, ride_id: UUID, share_id: str, headers: dict[str, str]) -> int:
    return (await town.api.delete(f"/v1/rides/{ride_id}/shares/{share_id}", headers=headers)).status_code


async def follow(town: Town, path: str) -> Any:
    answer = await town.api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def is_not_found(town: Town, path: str) -> bool:
    answer = await town.api.get(path)
    return (answer.status_code, answer.json().get("code")) == (404, "trip_not_found")


async def a_shared_ride(town: Town, **ride: Any) -> tuple[UUID, UUID, str]:
    """A new ride, its passenger, and the link's path."""
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id, **ride)
    return ride_id, passenger_id, (await share(town, ride_id, passenger_id))["path"]


async def a_shared_drive(town: Town, **ride: Any) -> tuple[UUID, UUID, UUID, str]:
    """Like `a_shared_ride`, with a driver who accepted."""
    ride_id, passenger_id, path = await a_shared_ride(town, **ride)
    driver_id = await town.new_driver()
    await town.rides.offer(ride_id, driver_id)
    assert (await town.rides.accept(ride_id, driver_id)).status_code == 200
    return ride_id, passenger_id, driver_id, path


async def expire(town: Town, ride_id: UUID) -> None:
    await town.rides.sql(
        "UPDATE trip_shares SET created_at = created_at - (expires_at - clock_timestamp()),"
        " expires_at = clock_timestamp() WHERE ride_id = $1",
        ride_id,
    )


async def rows(town: Town, ride_id: UUID) -> Sequence[Any]:
    return await town.rides.sql("SELECT * FROM trip_shares WHERE ride_id = $1", ride_id)


async def test_link_token_is_not_stored(town: Town) -> None:
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id)
    made = await share(town, ride_id, passenger_id)
    assert set(made) == {"id", "token", "path", "expires_at"}
    assert made["path"] == f"/v1/trips/{made['token']}"
    assert len(made["token"]) == 43  # 256 bits
    left = datetime.fromisoformat(made["expires_at"]) - now()
    assert timedelta(hours=3.9) < left <= 4 * HOUR
    (row,) = await rows(town, ride_id)
    assert row["digest"] == sha256(made["token"].encode()).digest()
    assert made["token"] not in str(dict(row))
    (seen,) = await listed(town, ride_id, bearer("passenger", passenger_id))
    assert seen == {
        "id": made["id"],
        "created_at": seen["created_at"],
        "expires_at": made["expires_at"],
    }


async def test_link_lifetime_is_chosen_and_a_day_at_most(town: Town) -> None:
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id)
    made = await share(town, ride_id, passenger_id, ttl_seconds=86400)
    assert timedelta(hours=23.9) < datetime.fromisoformat(made["expires_at"]) - now() <= 24 * HOUR
    for wrong in (59, 86401, "3600", None):
        answer = await try_to_share(town, ride_id, bearer("passenger", passenger_id), {"ttl_seconds": wrong})
        assert answer.status_code == 422, wrong


async def test_link_shows_only_the_status_before_acceptance(town: Town) -> None:
    ride_id, _, path = await a_shared_ride(town)
    assert await follow(town, path) == {"status": "REQUESTED"}
    await town.rides.offer(ride_id, await town.new_driver())
    assert await follow(town, path) == {"status": "OFFERED"}


async def test_link_shows_the_trip_under_way(town: Town) -> None:
    ride_id, passenger_id, driver_id, path = await a_shared_drive(town, pickup_address="Praça da Sé, 3")
    ana = Person("passenger", passenger_id)
    assert (await ana.change(town.api, name="Ana Maria de Jesus", phone="+5571987654321")).status_code == 200
    severino = Person("driver", driver_id)
    car = {"vehicle": "Fiat Uno", "plate": "QKT4B07"}
    assert (await severino.change(town.api, name="Severino Lacerda", driver=car)).status_code == 200

    async def moving() -> Any:
        await town.ping(driver_id, spot(1, heading=90.0))
        seen = await follow(town, path)
        return seen if "heading_degrees" in seen["position"] else None

    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await town.rides.drive_to(status, ride_id, driver_id)
        seen = await until(moving)  # On a loaded machine Redis may time out.
        at = seen["position"].pop("updated_at")
        assert datetime.fromisoformat(at) <= now()
        assert round(seen["position"].pop("lat"), 4) == round(spot(1)["lat"], 4)
        assert seen == {
            "status": status,
            "passenger_name": "Ana",
            "driver": {"name": "Severino", "vehicle": "Fiat Uno", "plate": "QKT4B07"},
            "pickup": {"lat": -12.978, "lng": -38.502},
            "dropoff": {"lat": -13.01, "lng": -38.533},
            "position": {"lng": LNG, "heading_degrees": 90.0},
        }


async def test_link_shows_rounded_time_and_place_after_the_end(town: Town) -> None:
    ride_id, _, driver_id, path = await a_shared_drive(town)
    await town.rides.drive_to("COMPLETED", ride_id, driver_id)
    seen = await follow(town, path)
    ended = datetime.fromisoformat(seen.pop("ended_at"))
    assert (ended.second, ended.microsecond) == (0, 0)
    assert timedelta(0) <= datetime.now(UTC) - ended < timedelta(minutes=2)
    assert seen == {"status": "ENDED", "ended_near": {"lat": -13.01, "lng": -38.53}}


async def test_ended_ride_without_destination_shows_no_place(town: Town) -> None:
    ride_id, _, driver_id, path = await a_shared_drive(town, way=SE)
    await town.rides.drive_to("STARTED", ride_id, driver_id)
    body = {"distance_meters": 3000}
    answer = await town.rides.act(ride_id, "complete", headers=bearer("driver", driver_id), json=body)
    assert answer.status_code == 200, answer.text
    assert set(await follow(town, path)) == {"status", "ended_at"}


async def test_canceled_ride_shows_the_pickup_area(town: Town) -> None:
    ride_id, passenger_id, _, path = await a_shared_drive(town)
    assert (await town.rides.cancel(ride_id, bearer("passenger", passenger_id))).status_code == 200
    seen = await follow(town, path)
    assert (seen["status"], seen["ended_near"]) == ("ENDED", {"lat": -12.98, "lng": -38.5})


async def test_ride_never_accepted_shows_no_place(town: Town) -> None:
    ride_id, passenger_id, path = await a_shared_ride(town)
    assert (await town.rides.cancel(ride_id, bearer("passenger", passenger_id))).status_code == 200
    assert set(await follow(town, path)) == {"status", "ended_at"}


async def test_unknown_expired_and_revoked_links_answer_the_same(town: Town) -> None:
    expired_ride, _, expired = await a_shared_ride(town)
    await expire(town, expired_ride)
    revoked_ride, passenger_id, revoked = await a_shared_ride(town)
    (only,) = await listed(town, revoked_ride)
    assert await revoke(town, revoked_ride, only["id"], bearer("passenger", passenger_id)) == 204
    unknown = "/v1/trips/" + "A" * 43
    answers = [
        await town.api.get(path) for path in (expired, revoked, unknown, "/v1/trips/x", "/v1/trips/ção")
    ]
    bodies = [(one.status_code, {**one.json(), "request_id": ""}) for one in answers]
    assert bodies == [bodies[0]] * 5
    assert bodies[0][1]["code"] == "trip_not_found"
    assert await listed(town, expired_ride) == await listed(town, revoked_ride) == []


@pytest.mark.parametrize("end", ["completed", "canceled", "expired"])
async def test_link_stops_working_an_hour_after_the_end(town: Town, end: str) -> None:
    if end == "completed":
        ride_id, _, driver_id, path = await a_shared_drive(town)
        await town.rides.drive_to("COMPLETED", ride_id, driver_id)
    else:
        ride_id, passenger_id, path = await a_shared_ride(town)
        if end == "canceled":
            assert (await town.rides.cancel(ride_id, bearer("passenger", passenger_id))).status_code == 200
        else:
            await town.rides.end_time_of_search(ride_id)
            await town.rides.settle(ride_id)
            assert await town.rides.status(ride_id) == "EXPIRED"
    column = {"completed": "completed_at", "canceled": "canceled_at", "expired": "updated_at"}[end]
    passed = f"UPDATE rides SET {column} = {column} - $2::interval WHERE id = $1"
    await town.rides.sql(passed, ride_id, timedelta(minutes=59))
    assert (await follow(town, path))["status"] == "ENDED"
    assert len(await listed(town, ride_id)) == 1
    await town.rides.sql(passed, ride_id, timedelta(minutes=2))
    assert await is_not_found(town, path)
    assert await listed(town, ride_id) == []


async def test_only_the_passenger_shares_and_only_until_the_end(town: Town) -> None:
    ride_id, passenger_id, driver_id, _ = await a_shared_drive(town)
    for headers, status in ((bearer("operator"), 403), (bearer("driver", driver_id), 404), (bearer(), 404)):
        assert (await try_to_share(town, ride_id, headers)).status_code == status
    await town.rides.drive_to("COMPLETED", ride_id, driver_id)
    late = await try_to_share(town, ride_id, bearer("passenger", passenger_id))
    assert (late.status_code, late.json()["code"]) == (409, "ride_ended")
    assert len(await rows(town, ride_id)) == 1


async def test_ride_has_five_links_at_most(town: Town) -> None:
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id)
    owner = bearer("passenger", passenger_id)
    made = [await share(town, ride_id, passenger_id) for _ in range(5)]
    assert len({one["token"] for one in made}) == 5
    refused = await try_to_share(town, ride_id, owner)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_shares")
    assert refused.json()["most"] == 5
    assert await revoke(town, ride_id, made[0]["id"], owner) == 204
    await share(town, ride_id, passenger_id)
    assert (await try_to_share(town, ride_id, owner)).status_code == 409
    await expire(town, ride_id)
    await share(town, ride_id, passenger_id)
    assert len(await listed(town, ride_id)) == 1


async def make_link(town: Town, ride_id: UUID, passenger_id: UUID) -> str:
    """Share without HTTP; returns the refusal's code or "made"."""
    caller = Principal(passenger_id, frozenset({"passenger"}), issued_at=now(), expires_at=now() + HOUR)
    try:
        await town.parts.database.run(lambda db: share_trip(db, ride_id, caller=caller, ttl=HOUR))
    except Refusal as refusal:
        return refusal.code
    return "made"


async def test_concurrent_shares_make_five_links(town: Town) -> None:
    for _ in range(5):
        passenger_id = uuid4()
        ride_id = await town.rides.request(passenger_id)
        outcomes = await asyncio.gather(*(make_link(town, ride_id, passenger_id) for _ in range(10)))
        assert sorted(outcomes) == ["made"] * 5 + ["too_many_shares"] * 5


async def test_share_waits_for_a_cancellation_and_is_refused(town: Town) -> None:
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id)
    async with town.parts.database.transaction() as db:
        await cancel_ride(
            db,
            RideId(ride_id),
            by=passenger_id,
            is_operator=False,
            reason="other",
            note=None,
            search_timeout=HOUR,
        )
        sharing = asyncio.create_task(make_link(town, ride_id, passenger_id))

        async def is_waiting() -> bool:
            waiting = "SELECT FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
            return bool(await town.rides.sql(waiting)) or sharing.done()

        await until(is_waiting)
    assert await sharing == "ride_ended"
    assert list(await rows(town, ride_id)) == []


async def test_schema_refuses_a_sixth_link_and_a_long_lifetime(town: Town) -> None:
    ride_id, _, _ = await a_shared_ride(town)
    again = (
        "INSERT INTO trip_shares (id, ride_id, passenger_id, digest, place, created_at, expires_at,"
        "   granted_at)"
        " SELECT gen_random_uuid(), ride_id, passenger_id, sha256(digest), {}, created_at, {}, granted_at"
        " FROM trip_shares WHERE ride_id = $1"
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await town.rides.sql(again.format("place", "expires_at"), ride_id)
    with pytest.raises(asyncpg.CheckViolationError):
        await town.rides.sql(again.format("6", "expires_at"), ride_id)
    with pytest.raises(asyncpg.CheckViolationError):
        await town.rides.sql(again.format("2", "created_at + interval '25 hours'"), ride_id)


async def test_revoke_is_repeatable_and_keeps_other_links(town: Town) -> None:
    ride_id, passenger_id, path = await a_shared_ride(town)
    owner = bearer("passenger", passenger_id)
    other = await share(town, ride_id, passenger_id)
    first, _ = await listed(town, ride_id)
    for _ in range(2):
        assert await revoke(town, ride_id, first["id"], owner) == 204
    assert await is_not_found(town, path)
    assert (await follow(town, other["path"]))["status"] == "REQUESTED"


async def test_link_of_another_ride_cannot_be_revoked(town: Town) -> None:
    ride_id, _, path = await a_shared_ride(town)
    own_ride, passenger_id, _ = await a_shared_ride(town)
    (link,) = await listed(town, ride_id)
    assert await revoke(town, own_ride, link["id"], bearer("passenger", passenger_id)) == 204
    assert await revoke(town, ride_id, link["id"], bearer("passenger", passenger_id)) == 404
    assert (await follow(town, path))["status"] == "REQUESTED"


async def test_revoke_by_an_operator_is_audited(town: Town) -> None:
    ride_id, passenger_id, path = await a_shared_ride(town)
    (link,) = await listed(town, ride_id)
    operator_id = uuid4()
    for _ in range(2):
        assert await revoke(town, ride_id, link["id"], bearer("operator", operator_id)) == 204
    assert await is_not_found(town, path)
    second = await share(town, ride_id, passenger_id)
    assert await revoke(town, ride_id, second["id"], bearer("passenger", passenger_id)) == 204
    acts = await town.rides.sql(
        "SELECT actor_id, action, data->>'share_id' AS link FROM audit_log WHERE subject_id = $1",
        str(ride_id),
    )
    assert [tuple(act) for act in acts] == [(operator_id, "ride.share_revoked", link["id"])]


async def test_repeat_with_the_same_key_makes_another_link(town: Town) -> None:
    passenger_id = uuid4()
    ride_id = await town.rides.request(passenger_id)
    headers = bearer("passenger", passenger_id) | {"idempotency-key": "share once"}
    tokens = {(await try_to_share(town, ride_id, headers)).json()["token"] for _ in range(2)}
    assert len(tokens) == 2
    stored = await town.rides.sql("SELECT convert_from(body, 'UTF8') AS body FROM idempotency_keys")
    assert not [row for row in stored for token in tokens if token in row["body"]]


async def test_export_lists_links_and_erasure_deletes_them(town: Town) -> None:
    ride_id, passenger_id, path = await a_shared_ride(town)
    owner = bearer("passenger", passenger_id)
    exported = (await town.api.get("/v1/me/export", headers=owner)).json()["sections"]["location"]
    (link,) = exported["shares"]
    assert set(link) == {"id", "ride_id", "created_at", "expires_at"}
    assert link["ride_id"] == str(ride_id)
    assert (await town.rides.cancel(ride_id, owner)).status_code == 200
    assert (await town.api.delete("/v1/me", headers=owner)).status_code == 204
    assert await is_not_found(town, path)
    assert list(await rows(town, ride_id)) == []


async def test_prune_deletes_only_expired_links(town: Town) -> None:
    gone, _, _ = await a_shared_ride(town)
    await expire(town, gone)
    stays, _, path = await a_shared_ride(town)
    assert await town.parts.database.run(prune_shares) >= 1
    assert await town.parts.database.run(prune_shares) == 0
    assert (len(await rows(town, gone)), len(await rows(town, stays))) == (0, 1)
    assert (await follow(town, path))["status"] == "REQUESTED"


async def test_link_without_redis_shows_postgresqls_position(town: Town) -> None:
    _, _, _, path = await a_shared_drive(town)
    async with redis_stopped(town):
        seen = await follow(town, path)
    assert (seen["status"], round(seen["position"]["lat"], 6)) == ("ACCEPTED", LAT)


async def test_trip_is_not_cached_and_sends_no_referrer(town: Town) -> None:
    _, _, path = await a_shared_ride(town)
    for answer in (await town.api.get(path), await town.api.get("/v1/trips/x")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_guessed_links_count_for_the_anonymous_limit(town: Town) -> None:
    statuses: list[int] = []
    async with served(town.parts, rate_limit_anonymous="3/hour") as here, here.client() as client:

        async def is_refused() -> bool:
            statuses.append((await client.get("/v1/trips/" + "A" * 43)).status_code)
            return statuses[-1] == 429

        await until(is_refused)
    assert set(statuses[:-1]) == {404}
