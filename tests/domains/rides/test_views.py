"""The view of a ride for each caller: passenger and driver see what they need, others nothing."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.domains.people.person import Person
from tests.domains.rides.desk import WAY, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack

ADDRESSES = {"pickup_address": "Ladeira da Preguiça, 41", "dropoff_address": "Rua do Meio, 7, fundos"}
# Data that identifies the passenger or the address.
SECRETS = ("Marinalva", "+5571911112222", "Preguiça", "Rua do Meio", "-12.9777", "-38.5016", "-13.0102")


class Meeting:
    """A passenger with name and phone, and a driver with a car."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.passenger, self.driver = desk, Person("passenger"), Person("driver")

    async def begin(self) -> "Meeting":
        api = self.desk.api
        await self.passenger.change(api, name="Marinalva Conceição", phone="+5571911112222")
        await self.driver.change(
            api,
            name="Severino Lacerda",
            phone="+5571933334444",
            driver={"vehicle": "Uno", "plate": "QKT4B07"},
        )
        self.ride_id = await self.desk.request(self.passenger.id, **ADDRESSES)
        await self.desk.offer(self.ride_id, self.driver.id)
        return self

    async def accepted(self) -> "Meeting":
        await self.begin()
        answer = await self.desk.accept(self.ride_id, self.driver.id)
        assert answer.status_code == 200
        return self

    async def seen_by(self, caller: Person) -> httpx.Response:
        return await self.desk.api.get(f"/v1/rides/{self.ride_id}", headers=caller.headers)

    async def everything_for(self, caller: Person) -> str:
        """Everything the API returns to this caller about the ride."""
        paths = [
            f"/v1/rides/{self.ride_id}",
            "/v1/rides",
            f"/v1/drivers/{caller.id}/active-ride",
            "/v1/me/export",
        ]
        return " ".join([(await self.desk.api.get(path, headers=caller.headers)).text for path in paths])


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


async def test_offered_driver_sees_rounded_places_and_no_names(desk: Desk) -> None:
    meeting = await Meeting(desk).begin()
    answer = await meeting.seen_by(meeting.driver)
    assert secrets_in(await meeting.everything_for(meeting.driver)) == []
    ride = answer.json()
    assert str(meeting.passenger.id) not in answer.text
    assert (ride["seen_as"], ride["status"], ride["passenger_id"]) == ("offered", "OFFERED", None)
    assert (ride["pickup_lat"], ride["pickup_lon"]) == (-12.978, -38.502)
    assert (ride["dropoff_lat"], ride["dropoff_lon"]) == (-13.01, -38.533)
    assert ride["estimated_fare_cents"] > 0
    assert ride["offer_expires_at"] is not None


async def test_accepted_driver_sees_passenger_and_places(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await desk.drive_to(status, meeting.ride_id, meeting.driver.id)
        ride = (await meeting.seen_by(meeting.driver)).json()
        assert (WAY | ADDRESSES).items() <= ride.items()
        assert ride["passenger"]["name"] == "Marinalva Conceição"
        assert ride["passenger"]["phone"] == "+5571911112222"
        assert (ride["seen_as"], ride["driver"]) == ("driver", None)
        active = await desk.api.get(
            f"/v1/drivers/{meeting.driver.id}/active-ride", headers=meeting.driver.headers
        )
        assert active.json() == ride


async def test_passenger_sees_driver_and_car(desk: Desk) -> None:
    meeting = await Meeting(desk).begin()
    assert (await meeting.seen_by(meeting.passenger)).json()["driver"] is None
    await desk.accept(meeting.ride_id, meeting.driver.id)
    ride = (await meeting.seen_by(meeting.passenger)).json()
    assert ride["driver"] == {
        "id": str(meeting.driver.id),
        "name": "Severino Lacerda",
        "phone": "+5571933334444",
        "vehicle": "Uno",
        "plate": "QKT4B07",
    }
    assert (WAY | ADDRESSES).items() <= ride.items()


async def ended(desk: Desk, meeting: Meeting, how: str) -> None:
    if how == "completed":
        await desk.drive_to("COMPLETED", meeting.ride_id, meeting.driver.id)
    elif how == "canceled":
        await desk.cancel(meeting.ride_id, meeting.passenger.headers)
    else:
        await desk.give_up(meeting.ride_id, meeting.driver.id)


@pytest.mark.parametrize("how", ["completed", "canceled", "given up"])
async def test_parties_do_not_see_each_other_after_the_ride(desk: Desk, how: str) -> None:
    meeting = await Meeting(desk).accepted()
    await ended(desk, meeting, how)
    assert secrets_in(await meeting.everything_for(meeting.driver)) == []
    seen = await meeting.seen_by(meeting.driver)
    assert seen.status_code == (404 if how == "given up" else 200)
    passengers = await meeting.everything_for(meeting.passenger)
    assert "+5571933334444" not in passengers
    assert "Severino" not in passengers
    assert "Ladeira da Preguiça" in passengers, "passengers see their own address"


async def test_verbs_show_a_driver_no_more_than_reading_does(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    answers: list[Any] = []
    for verb, body in (("arrive", None), ("start", None), ("complete", {})):
        answer = await desk.act(meeting.ride_id, verb, headers=meeting.driver.headers, json=body)
        assert answer.json() == (await meeting.seen_by(meeting.driver)).json()
        answers.append(answer)
    assert secrets_in(answers[-1].text) == []
    other = await Meeting(desk).accepted()
    given_up = await desk.cancel(other.ride_id, other.driver.headers, "too_far")
    assert (given_up.status_code, secrets_in(given_up.text)) == (200, [])


@pytest.mark.parametrize("ending", ["rejected", "expired", "lost"])
async def test_driver_with_an_ended_offer_sees_no_ride(desk: Desk, ending: str) -> None:
    meeting = await Meeting(desk).begin()
    if ending == "rejected":
        await desk.reject(meeting.ride_id, meeting.driver.id)
    elif ending == "expired":
        await desk.let_lapse(meeting.ride_id)
        await desk.settle(meeting.ride_id)
    else:
        other_id = await desk.new_driver()
        await desk.offer(meeting.ride_id, other_id)
        await desk.accept(meeting.ride_id, other_id)
    assert (await meeting.seen_by(meeting.driver)).status_code == 404


async def test_other_callers_see_no_ride(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    for role in ("passenger", "driver", "worker"):
        answer = await meeting.seen_by(Person(role))
        assert (answer.status_code, answer.json()["code"]) == (404, "ride_not_found")
        assert secrets_in(answer.text) == []


async def test_operators_and_services_always_see_both_parties(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    await desk.drive_to("COMPLETED", meeting.ride_id, meeting.driver.id)
    for role in ("operator", "service"):
        ride = (await meeting.seen_by(Person(role))).json()
        assert ride["seen_as"] == "operator"
        assert ride["passenger"]["phone"] == "+5571911112222"
        assert ride["driver"]["plate"] == "QKT4B07"
        assert (WAY | ADDRESSES).items() <= ride.items()


async def test_attempts_and_timelines_are_for_operators(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    for part in ("attempts", "timeline"):
        for caller in (meeting.passenger, meeting.driver, Person("service")):
            answer = await desk.api.get(f"/v1/rides/{meeting.ride_id}/{part}", headers=caller.headers)
            assert answer.status_code == 403


async def test_active_ride_is_visible_to_driver_and_operator(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    path = f"/v1/drivers/{meeting.driver.id}/active-ride"
    for caller in (meeting.passenger, Person("driver"), Person("passenger")):
        assert (await desk.api.get(path, headers=caller.headers)).status_code == 403
    answer = await desk.api.get(path, headers=desk.operator)
    assert UUID(answer.json()["ride_id"]) == meeting.ride_id


async def test_export_leaves_out_the_other_party(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    of_passenger = await desk.api.get("/v1/me/export", headers=meeting.passenger.headers)
    (ride,) = of_passenger.json()["sections"]["rides"]
    assert (WAY | ADDRESSES | {"id": str(meeting.ride_id)}).items() <= ride.items()
    assert str(meeting.driver.id) not in of_passenger.text
    of_driver = await desk.api.get("/v1/me/export", headers=meeting.driver.headers)
    (ride,) = of_driver.json()["sections"]["rides"]
    assert ride["accepted_driver_id"] == str(meeting.driver.id)
    assert str(meeting.passenger.id) not in of_driver.text
    assert secrets_in(of_driver.text) == []


async def test_erasure_is_refused_during_a_ride(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    for headers in (meeting.passenger.headers, meeting.driver.headers):
        answer = await desk.api.delete("/v1/me", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "ride_under_way")
        assert answer.json()["ride_id"] == str(meeting.ride_id)
        assert (await desk.api.get("/v1/me", headers=headers)).status_code == 200


async def test_erasure_removes_addresses_from_rides(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    await desk.drive_to("ARRIVING", meeting.ride_id, meeting.driver.id)
    await desk.act(
        meeting.ride_id,
        "cancel",
        headers=meeting.passenger.headers,
        json={"reason": "other", "note": "Marinalva mudou de ideia"},
    )
    assert (await desk.api.delete("/v1/me", headers=meeting.passenger.headers)).status_code == 204
    (kept,) = await desk.sql("SELECT r::text AS row FROM rides r WHERE id = $1", meeting.ride_id)
    assert [secret for secret in ("Marinalva", "Preguiça", "Rua do Meio") if secret in kept["row"]] == []
    assert (await desk.read(meeting.ride_id))["passenger"]["name"] is None


async def test_erasure_removes_device_data_from_attempts(desk: Desk) -> None:
    meeting = await Meeting(desk).accepted()
    await desk.drive_to("COMPLETED", meeting.ride_id, meeting.driver.id)
    (before,) = await desk.attempts(meeting.ride_id)
    assert None not in (before["user_agent"], before["ip_address"])
    assert (await desk.api.delete("/v1/me", headers=meeting.driver.headers)).status_code == 204
    (after,) = await desk.attempts(meeting.ride_id)
    assert after == before | {"user_agent": None, "ip_address": None}
