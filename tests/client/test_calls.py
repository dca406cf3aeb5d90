"""Each call once, on a real server: requests are accepted and responses are decoded."""

from uuid import uuid4

import pytest

from catraca.client import Client, Ping, Refused
from tests.client.people import FAROL_DA_BARRA, PRACA_DA_SE, person, token_of
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def test_ride_from_quote_to_completion(api_url: str) -> None:
    async with (
        person(api_url, "passenger") as passenger,
        person(api_url, "driver") as driver,
        person(api_url, "driver") as other,
        person(api_url, "operator") as operator,
    ):
        quote = await passenger.rides.quote(**PRACA_DA_SE, **FAROL_DA_BARRA)
        ride = await passenger.rides.request(**PRACA_DA_SE, **FAROL_DA_BARRA, pickup_address="Praça da Sé, 3")
        assert (ride.status, ride.estimated_fare_cents) == ("REQUESTED", quote.fare_cents)
        assert quote.currency == "BRL"

        drivers = [await driver.own_id(), await other.own_id()]
        made = await operator.rides.offer(ride.ride_id, drivers, ttl_seconds=60)
        assert [offer.driver_id for offer in made.offers] == drivers
        seen = await driver.rides.read(ride.ride_id)
        assert (seen.seen_as, seen.pickup_address, seen.passenger_id) == ("offered", None, None)
        assert (await other.rides.reject(ride.ride_id, reason="too_far")).response == "REJECTED"

        taken = await driver.rides.accept(ride.ride_id)
        assert (taken.driver_id, taken.pickup_lat) == (drivers[0], PRACA_DA_SE["pickup_lat"])
        read = await passenger.rides.read(ride.ride_id)
        assert read.driver is not None
        assert read.driver.id == drivers[0]
        active = await driver.rides.active(drivers[0])
        assert active is not None
        assert active.ride_id == ride.ride_id
        assert (await driver.rides.arrive(ride.ride_id)).status == "ARRIVING"
        assert (await driver.rides.start(ride.ride_id)).status == "STARTED"
        assert (await driver.rides.complete(ride.ride_id)).final_fare_cents == quote.fare_cents
        assert await driver.rides.active(drivers[0]) is None
        assert (await passenger.rides.read(ride.ride_id)).status == "COMPLETED"
        paid = await driver.rides.confirm_cash(ride.ride_id)
        assert (paid.status, paid.amount_cents) == ("PAID", quote.fare_cents)
        assert (await passenger.rides.charge(ride.ride_id)).charge_id == paid.charge_id
        assert (await passenger.rides.read(ride.ride_id)).status == "PAID"


async def test_rides_are_listed_page_by_page_and_canceled(api_url: str) -> None:
    async with person(api_url, "passenger") as passenger:
        rides = []
        for _ in range(3):
            ride = await passenger.rides.request(**PRACA_DA_SE)
            ended = await passenger.rides.cancel(ride.ride_id, "changed_plans", note="It rains.")
            assert (ended.status, ended.canceled_by) == ("CANCELED", "passenger")
            rides.insert(0, ride.ride_id)
        first = await passenger.rides.page(statuses=["CANCELED", "EXPIRED"], limit=2)
        assert [ride.ride_id for ride in first.rides] == rides[:2]
        rest = await passenger.rides.page(before=first.next)
        assert ([ride.ride_id for ride in rest.rides], rest.next) == (rides[2:], None)


async def test_driver_goes_online_pings_and_goes_offline(api_url: str) -> None:
    here = Ping(lat=-12.9777, lng=-38.5016, accuracy_meters=8.0)
    async with person(api_url, "driver") as driver, person(api_url, "operator") as operator:
        assert (await driver.location.go_online(here)).online
        assert (await driver.location.ping(here)).accepted == 1
        several = await driver.location.ping(here, Ping(lat=-12.9, lng=-38.5, accuracy_meters=5000.0))
        assert (several.accepted, [one.code for one in several.rejected]) == (1, ["imprecise"])
        assert not (await operator.location.go_offline(driver_id=await driver.own_id())).online
        with pytest.raises(Refused) as raised:
            await driver.location.ping(here)
    assert (raised.value.status, raised.value.code) == (409, "driver_offline")


async def test_refusal_has_code_text_and_data(api_url: str) -> None:
    async with person(api_url, "passenger") as passenger:
        ride = await passenger.rides.request(**PRACA_DA_SE)
        with pytest.raises(Refused) as raised:
            await passenger.rides.request(**PRACA_DA_SE)
    refused = raised.value
    assert (refused.status, refused.code) == (409, "ride_already_open")
    assert refused.detail in str(refused)
    assert refused.data["ride_id"] == str(ride.ride_id)


async def test_refused_token_is_renewed(api_url: str) -> None:
    sub = uuid4()
    tokens = [token_of("passenger", sub), token_of("passenger", sub, seconds=-60)]
    async with Client(api_url, token=tokens.pop) as passenger:
        assert await passenger.own_id() == sub
        assert not tokens

    async def bad_token() -> str:
        return "not a token"

    for token in ("not a token", bad_token):
        async with Client(api_url, token=token) as client:
            with pytest.raises(Refused) as raised:
                await client.own_id()
            assert raised.value.status == 401


async def test_trip_is_shared_followed_and_revoked(api_url: str) -> None:
    async with person(api_url, "passenger") as passenger, person(api_url, "passenger") as friend:
        ride = await passenger.rides.request(**PRACA_DA_SE, **FAROL_DA_BARRA)
        link = await passenger.trips.share(ride.ride_id, ttl_seconds=600)
        assert [share.id for share in await passenger.trips.shares(ride.ride_id)] == [link.id]
        assert (await friend.trips.follow(link.token)).status == "REQUESTED"
        await passenger.trips.revoke(ride.ride_id, link.id)
        with pytest.raises(Refused) as raised:
            await friend.trips.follow(link.token)
        assert raised.value.status == 404
        assert await passenger.trips.shares(ride.ride_id) == []


async def test_position_is_readable_while_there_is_a_driver(api_url: str) -> None:
    async with (
        person(api_url, "passenger") as passenger,
        person(api_url, "driver") as driver,
        person(api_url, "operator") as operator,
    ):
        ride_id = (await passenger.rides.request(**PRACA_DA_SE)).ride_id
        await operator.rides.offer(ride_id, [await driver.own_id()], ttl_seconds=60)
        await driver.rides.accept(ride_id)
        assert await passenger.trips.position(ride_id) is None
        await driver.location.go_online(Ping(lat=-12.9777, lng=-38.5016))
        found = await passenger.trips.position(ride_id)
        assert found is not None
        assert (found.lat, found.lng) == (-12.9777, -38.5016)
