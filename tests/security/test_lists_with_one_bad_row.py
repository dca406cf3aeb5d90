"""No list fails because of one stored row: the database refuses the row, or the list leaves it out."""

from uuid import uuid4

import asyncpg
import pytest

from catraca.domains import scheduling
from catraca.roles.doctor.workers import check_workers
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.communities.places import post_community
from tests.domains.scheduling.clinic import open_clinic
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts

# Values that fit the columns' types and that no reader could read, each with the constraint that refuses it.
PRICES = """'{"base_cents": "free"}'"""
REFUSED = {
    "rides.tariff": (f"UPDATE rides SET tariff = {PRICES}", "ride_prices_can_be_read"),
    "community_versions.tariff": (
        (
            "INSERT INTO community_versions (community_id, version, name, fence, tariff, fallback,"
            " neighbour_ids)"
            f" SELECT community_id, 2, name, fence, {PRICES}, fallback, neighbour_ids FROM community_versions"
        ),
        "community_prices_can_be_read",
    ),
    "community_versions.fence": (
        (
            "INSERT INTO community_versions (community_id, version, name, fence, fallback, neighbour_ids)"
            " SELECT community_id, 2, name, '[]', fallback, neighbour_ids FROM community_versions"
        ),
        "fences_are_polygons",
    ),
    "notifications.data": (
        (
            "INSERT INTO notifications (user_id, seq, type, data, event_id)"
            " SELECT user_id, 1, 'x', '[]', gen_random_uuid() FROM notification_heads"
        ),
        "notifications_are_objects",
    ),
    "audit_log.data": (
        (
            "INSERT INTO audit_log (id, action, subject_kind, subject_id, data)"
            " VALUES (gen_random_uuid(), 'x', 'x', 'x', '[]')"
        ),
        "audit_data_are_objects",
    ),
    "matching_searches.seen": (
        (
            "INSERT INTO matching_searches (id, ride_id, round, search, radius_meters, source, cause,"
            " outcome, verdicts, seen)"
            " SELECT gen_random_uuid(), id, 1, 1, 1, 'redis', 'begun', 'asked', '{}', '{}'"
            " FROM rides"
        ),
        "searches_can_be_read",
    ),
    "users.language": ("UPDATE users SET language = 'tlh'", "users_language_check"),
    "users.roles": ("UPDATE users SET roles = '{wizard}'", "users_roles_check"),
    "rides.status": ("UPDATE rides SET status = 'LOST'", "rides_status_check"),
    "appointments.status": ("UPDATE appointments SET status = 'LOST'", "appointments_status_check"),
}
PLACES = {"zone": "time_zone = 'Atlantis/Deep'", "holidays": "holidays_country = 'ZZ', holidays_state = 'Q'"}


async def test_database_refuses_values_that_no_list_can_read(stack: Stack, settings: Settings) -> None:
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as api:
        clinic, passenger = await open_clinic(api, parts), uuid4()
        await clinic.booked(passenger, clinic.at("09:00"))
        place = {"pickup_lat": 1.0, "pickup_lon": 1.0}
        asked = await api.post("/v1/rides", json=place, headers=bearer("passenger", passenger))
        assert asked.status_code == 201, asked.text
        await post_community(api)
        await clinic.sql("INSERT INTO notification_heads (user_id, seq) VALUES ($1, 1)", passenger)
        accepted: list[str] = []
        for column, (statement, constraint) in REFUSED.items():
            try:
                await clinic.sql(statement)
                accepted.append(column)
            except asyncpg.CheckViolationError as refused:
                assert refused.constraint_name == constraint, column  # noqa: PT017
        assert accepted == []


@pytest.mark.parametrize("place", PLACES)
async def test_worker_of_an_unknown_place_fails_no_list(stack: Stack, settings: Settings, place: str) -> None:
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as api:
        clinic = await open_clinic(api, parts)
        lost = await clinic.worker()
        await clinic.sql(f"UPDATE subjects SET {PLACES[place]} WHERE id = $1", lost)
        found = await clinic.slots(worker_id=None)
        assert {slot["worker_id"] for slot in found} == {str(clinic.worker_id)}
        listed = await clinic.call("GET", "/workers")
        assert {one["worker_id"] for one in listed["workers"]} == {str(clinic.worker_id), str(lost)}
        await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=None)
        series = clinic.wish(clinic.at("11:00"), worker_id=None, every="week", count=2)
        answer = await clinic.send("POST", "/series", series, by=bearer("passenger", uuid4()))
        assert answer.status_code == 201, answer.text
        explained = await clinic.call(
            "GET", "/availability/explain", service_id=clinic.service_id, starts_at=clinic.at("09:00")
        )
        assert [one["worker_id"] for one in explained["workers"]] == [str(clinic.worker_id)]
        async with parts.database.connection() as db:
            assert await scheduling.find_workers_of_unknown_places(db) == [lost]
        (finding,) = await check_workers(parts.settings)
        assert finding.verdict == "warning"
        assert str(lost) in finding.found


async def test_fence_that_is_no_shape_fails_no_other(stack: Stack, settings: Settings) -> None:
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as api:
        good, bad = await post_community(api), await post_community(api)
        async with parts.database.transaction() as db:
            await db.execute("ALTER TABLE community_versions DISABLE TRIGGER USER")
            await db.execute(
                """UPDATE community_versions SET fence = '{"type": "Polygon", "coordinates": [[[0, 0]]]}'"""
                " WHERE community_id = $1",
                bad["community_id"],
            )
        listed = await api.get("/v1/communities", headers=bearer("operator"))
        assert {one["community_id"] for one in listed.json()["communities"]} == {
            good["community_id"],
            bad["community_id"],
        }
        lng, lat = good["fence"]["coordinates"][0][0]
        there = await api.get(
            "/v1/communities/at", params={"lat": lat + 0.005, "lng": lng + 0.005}, headers=bearer("passenger")
        )
        assert there.status_code == 200, there.text
        assert good["community_id"] in there.text
