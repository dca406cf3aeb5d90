"""What changes with drivers from elsewhere: tier, distance, waiting time and fare."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.domains import communities
from catraca.domains.communities import Prices
from catraca.domains.communities.service import change_community
from tests.conftest import bearer
from tests.domains.geofences.village import FENCE_METERS, OUTSIDE_METERS, Village, square

MESSAGE = "Nenhum motorista disponível na sua comunidade. Confirme para buscar motoristas de outras áreas."
HOME, OUTSIDE = Prices(100, 200, 0, 900), Prices(300, 400, 0, 1700)


async def test_neighbours_are_offered_before_all_drivers(village: Village) -> None:
    beside = await village.add_community(square(village.lat - 0.03, village.lng))
    friendly = await village.add_community(
        square(village.lat, village.lng, meters=FENCE_METERS / 2),
        fallback=("neighbours", "open"),
        neighbour_ids=(beside.id,),
    )
    no_driver = (await village.request(uuid4())).json()
    assert no_driver["changes"]["tier"] == "open", "without any driver, the last tier"
    assert (no_driver["changes"]["distanceMeters"], no_driver["changes"]["waitSeconds"]) == (None, None)
    assert no_driver["message"] == MESSAGE
    await village.add_driver(north_meters=OUTSIDE_METERS)
    any_driver = (await village.request(uuid4())).json()["changes"]
    assert any_driver["tier"] == "open"
    assert OUTSIDE_METERS <= any_driver["distanceMeters"] <= 1.5 * OUTSIDE_METERS
    assert any_driver["waitSeconds"] > 0
    await village.add_driver(north_meters=OUTSIDE_METERS + 1000, community=beside)
    passenger_id = uuid4()
    neighbours = (await village.request(passenger_id)).json()
    assert neighbours["changes"]["tier"] == "neighbours"
    assert neighbours["changes"]["distanceMeters"] > any_driver["distanceMeters"]
    assert neighbours["message"] == (
        "Nenhum motorista disponível na sua comunidade. "
        "Confirme para buscar motoristas das comunidades vizinhas."
    )
    ride = (await village.confirm(passenger_id, neighbours["confirmationToken"])).json()["ride"]
    assert (ride["tier"], UUID(ride["communityId"])) == ("neighbours", friendly.id)


async def test_repeated_confirmation_keeps_its_terms(village: Village) -> None:
    """Although the neighbours' driver left, other drivers came and the prices changed."""
    beside = await village.add_community(square(village.lat - 0.03, village.lng))
    rules = {"fallback": ("neighbours", "open"), "neighbour_ids": (beside.id,)}
    dear, cheap = communities.Prices(0, 0, 0, 5000), communities.Prices(0, 0, 0, 100)
    fence = square(village.lat, village.lng, meters=FENCE_METERS / 2)
    friendly = await village.add_community(fence, tariff=dear, **rules)
    neighbour_id = await village.add_driver(north_meters=OUTSIDE_METERS, community=beside)
    passenger_id = uuid4()
    first = (await village.request(passenger_id)).json()
    assert (first["changes"]["tier"], first["changes"]["fareCents"]) == ("neighbours", 5000)
    await village.town.go(neighbour_id, online=False)
    await village.add_driver(north_meters=OUTSIDE_METERS)
    async with village.town.parts.database.transaction() as db:
        changed = communities.Rules(name="Vila", tariff=cheap, **rules)
        await change_community(db, friendly.id, changed, json.dumps(fence), version=1, by=None)
    again = (await village.request(passenger_id)).json()
    assert (again["confirmationToken"], again["message"]) == (first["confirmationToken"], first["message"])
    unknown = {"distanceMeters": None, "waitSeconds": None}
    assert again["changes"] == first["changes"] | unknown
    ride = (await village.confirm(passenger_id, first["confirmationToken"])).json()["ride"]
    assert (ride["tier"], ride["fareCents"]) == ("neighbours", 5000)


async def estimated_km(village: Village, way: dict[str, float]) -> float:
    body = {
        "pickup_lat": village.lat,
        "pickup_lon": village.lng,
        "dropoff_lat": way["destinationLat"],
        "dropoff_lon": way["destinationLng"],
    }
    answer = await village.town.api.post("/v1/quotes", json=body, headers=bearer("passenger"))
    return answer.json()["distance_meters"] / 1000


def far_away(village: Village) -> dict[str, float]:
    """A destination so far away that the fare is above every minimum."""
    return {"destinationLat": village.lat + 0.2, "destinationLng": village.lng}


async def test_home_and_outside_tariffs_are_applied(village: Village) -> None:
    priced = await Village.create(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    way = far_away(priced)
    kilometres = await estimated_km(priced, way)
    passenger_id = uuid4()
    body = (await priced.request(passenger_id, **way)).json()
    at_home, outside = (round(one.base_cents + kilometres * one.per_km_cents) for one in (HOME, OUTSIDE))
    assert body["changes"]["homeFareCents"] == pytest.approx(at_home, abs=1)
    assert body["changes"]["fareCents"] == pytest.approx(outside, abs=1)
    ride = (await priced.confirm(passenger_id, body["confirmationToken"])).json()["ride"]
    assert ride["fareCents"] == body["changes"]["fareCents"]
    assert ride["price"] == 15.5, "the app's estimate is stored and not charged"
    await priced.add_driver(based=True)
    ride = (await priced.request(uuid4(), **way)).json()["ride"]
    assert ride["fareCents"] == body["changes"]["homeFareCents"]


async def test_fare_without_destination_is_the_minimum(village: Village) -> None:
    priced = await Village.create(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    changes = (await priced.request(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (900, 1700)


async def test_missing_tariffs_fall_back_to_the_general_one(village: Village) -> None:
    one_for_both = await Village.create(village.town, tariff=HOME)
    changes = (await one_for_both.request(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (900, 900)
    general_cents = village.town.parts.settings.fares.tariff_minimum_cents
    changes = (await village.request(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (general_cents, general_cents)
    way = far_away(village)
    quote = {"pickup_lat": village.lat, "pickup_lon": village.lng}
    quote |= {"dropoff_lat": way["destinationLat"], "dropoff_lon": way["destinationLng"]}
    quoted = await village.town.api.post("/v1/quotes", json=quote, headers=bearer("passenger"))
    changes = (await village.request(uuid4(), **way)).json()["changes"]
    assert changes["fareCents"] == quoted.json()["fare_cents"]


@pytest.mark.parametrize(
    ("driven_meters", "fare_cents"), [(None, 1700), (10_000, 300 + 10 * 400), (100, 1700)]
)
async def test_ride_is_charged_by_the_confirmed_tariff(
    village: Village, driven_meters: int | None, fare_cents: int
) -> None:
    """Also if the community's tariff changed after the confirmation."""
    priced = await Village.create(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    passenger_id = uuid4()
    ride_id = await priced.confirm_ride(passenger_id, await priced.request_token(passenger_id))
    async with village.town.parts.database.transaction() as db:
        free = communities.Rules(name="Vila", tariff=Prices(0, 0, 0, 0))
        fence = json.dumps(square(priced.lat, priced.lng))
        await change_community(db, priced.community.id, free, fence, version=1, by=None)
    desk, driver_id = village.town.rides, await village.town.rides.new_driver()
    await desk.offer(ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id)).status_code == 200
    await desk.drive_to("STARTED", ride_id, driver_id)
    await desk.start_earlier(ride_id, timedelta(minutes=20))
    body: dict[str, Any] = {} if driven_meters is None else {"distance_meters": driven_meters}
    completed = await desk.act(ride_id, "complete", headers=bearer("driver", driver_id), json=body)
    assert completed.status_code == 200, completed.text
    assert completed.json()["final_fare_cents"] == fare_cents


async def test_prices_are_rounded_to_hundredths(village: Village) -> None:
    # As floats, the first prices times a hundred are not whole numbers.
    for price in (19.99, 0.29, 1.1, 0, 15, 1_000_000):
        passenger_id = uuid4()
        token = await village.request_token(passenger_id, price=price)
        answer = await village.confirm(passenger_id, token, price=price)
        assert answer.status_code == 201, answer.text
        assert answer.json()["ride"]["price"] == price
        rows = await village.sql("SELECT asked_price_cents FROM rides WHERE passenger_id = $1", passenger_id)
        assert rows[0]["asked_price_cents"] == round(price * 100)
