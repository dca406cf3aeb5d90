"""What becomes of a ride that the community's own could not take: whose drivers, how far, at what price."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.domains import communities
from catraca.domains.communities import Prices
from catraca.domains.communities.service import change_community
from tests.conftest import bearer
from tests.domains.geofences.village import FENCE_METERS, OUTSIDE_METERS, Village, square

QUESTION = "Nenhum motorista disponível na sua comunidade. Confirme para buscar motoristas de outras áreas."
HOME, OUTSIDE = Prices(100, 200, 0, 900), Prices(300, 400, 0, 1700)


async def test_the_neighbours_are_asked_about_first_and_what_changes_is_said(village: Village) -> None:
    beside = await village.another(square(village.lat - 0.03, village.lng))
    friendly = await village.another(
        square(village.lat, village.lng, meters=FENCE_METERS / 2),
        fallback=("neighbours", "open"),
        neighbour_ids=(beside.id,),
    )
    nobody = (await village.ask(uuid4())).json()
    assert nobody["changes"]["tier"] == "open", "with nobody anywhere, the widest"
    assert (nobody["changes"]["distanceMeters"], nobody["changes"]["waitSeconds"]) == (None, None)
    assert nobody["message"] == QUESTION
    await village.driver(north_meters=OUTSIDE_METERS)
    anybody = (await village.ask(uuid4())).json()["changes"]
    assert anybody["tier"] == "open"
    assert OUTSIDE_METERS <= anybody["distanceMeters"] <= 1.5 * OUTSIDE_METERS
    assert anybody["waitSeconds"] > 0
    await village.driver(north_meters=OUTSIDE_METERS + 1000, community=beside)
    passenger_id = uuid4()
    neighbours = (await village.ask(passenger_id)).json()
    assert neighbours["changes"]["tier"] == "neighbours"
    assert neighbours["changes"]["distanceMeters"] > anybody["distanceMeters"]
    assert neighbours["message"] == (
        "Nenhum motorista disponível na sua comunidade. "
        "Confirme para buscar motoristas das comunidades vizinhas."
    )
    ride = (await village.confirm(passenger_id, neighbours["confirmationToken"])).json()["ride"]
    assert (ride["tier"], UUID(ride["communityId"])) == ("neighbours", friendly.id)


async def test_a_repeated_question_says_what_it_will_be_confirmed_with(village: Village) -> None:
    """Meanwhile the neighbours' driver has left, others are there, and prices are different."""
    beside = await village.another(square(village.lat - 0.03, village.lng))
    rules = {"fallback": ("neighbours", "open"), "neighbour_ids": (beside.id,)}
    dear, cheap = communities.Prices(0, 0, 0, 5000), communities.Prices(0, 0, 0, 100)
    fence = square(village.lat, village.lng, meters=FENCE_METERS / 2)
    friendly = await village.another(fence, tariff=dear, **rules)
    neighbour_id = await village.driver(north_meters=OUTSIDE_METERS, community=beside)
    passenger_id = uuid4()
    first = (await village.ask(passenger_id)).json()
    assert (first["changes"]["tier"], first["changes"]["fareCents"]) == ("neighbours", 5000)
    await village.town.go(neighbour_id, online=False)
    await village.driver(north_meters=OUTSIDE_METERS)
    async with village.town.parts.database.transaction() as db:
        changed = communities.Rules(name="Vila", tariff=cheap, **rules)
        await change_community(db, friendly.id, changed, json.dumps(fence), version=1, by=None)
    again = (await village.ask(passenger_id)).json()
    assert (again["confirmationToken"], again["message"]) == (first["confirmationToken"], first["message"])
    nobody = {"distanceMeters": None, "waitSeconds": None}
    assert again["changes"] == first["changes"] | nobody
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
    """So far that no minimum counts."""
    return {"destinationLat": village.lat + 0.2, "destinationLng": village.lng}


async def test_each_of_its_tariffs_is_charged_where_it_belongs(village: Village) -> None:
    priced = await Village.settle(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    way = far_away(priced)
    kilometres = await estimated_km(priced, way)
    passenger_id = uuid4()
    told = (await priced.ask(passenger_id, **way)).json()
    at_home, outside = (round(one.base_cents + kilometres * one.per_km_cents) for one in (HOME, OUTSIDE))
    assert told["changes"]["homeFareCents"] == pytest.approx(at_home, abs=1)
    assert told["changes"]["fareCents"] == pytest.approx(outside, abs=1)
    ride = (await priced.confirm(passenger_id, told["confirmationToken"])).json()["ride"]
    assert ride["fareCents"] == told["changes"]["fareCents"]
    assert ride["price"] == 15.5, "what the app thought is kept, and not charged"
    await priced.driver(based=True)
    ride = (await priced.ask(uuid4(), **way)).json()["ride"]
    assert ride["fareCents"] == told["changes"]["homeFareCents"]


async def test_to_nowhere_in_particular_it_is_the_minimum(village: Village) -> None:
    priced = await Village.settle(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    changes = (await priced.ask(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (900, 1700)


async def test_one_tariff_is_for_both_and_none_is_the_general_one(village: Village) -> None:
    one_for_both = await Village.settle(village.town, tariff=HOME)
    changes = (await one_for_both.ask(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (900, 900)
    general_cents = village.town.parts.settings.fares.tariff_minimum_cents
    changes = (await village.ask(uuid4())).json()["changes"]
    assert (changes["homeFareCents"], changes["fareCents"]) == (general_cents, general_cents)
    way = far_away(village)
    quote = {"pickup_lat": village.lat, "pickup_lon": village.lng}
    quote |= {"dropoff_lat": way["destinationLat"], "dropoff_lon": way["destinationLng"]}
    quoted = await village.town.api.post("/v1/quotes", json=quote, headers=bearer("passenger"))
    changes = (await village.ask(uuid4(), **way)).json()["changes"]
    assert changes["fareCents"] == quoted.json()["fare_cents"]


@pytest.mark.parametrize(("told_meters", "fare_cents"), [(None, 1700), (10_000, 300 + 10 * 400), (100, 1700)])
async def test_the_ride_is_charged_by_the_tariff_that_was_confirmed(
    village: Village, told_meters: int | None, fare_cents: int
) -> None:
    """Also if the community has others by then."""
    priced = await Village.settle(village.town, tariff=HOME, outside_tariff=OUTSIDE)
    passenger_id = uuid4()
    ride_id = await priced.confirmed(passenger_id, await priced.token(passenger_id))
    async with village.town.parts.database.transaction() as db:
        free = communities.Rules(name="Vila", tariff=Prices(0, 0, 0, 0))
        fence = json.dumps(square(priced.lat, priced.lng))
        await change_community(db, priced.community.id, free, fence, version=1, by=None)
    desk, driver_id = village.town.rides, await village.town.rides.new_driver()
    await desk.offer(ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id)).status_code == 200
    await desk.drive_to("STARTED", ride_id, driver_id)
    body: dict[str, Any] = {} if told_meters is None else {"distance_meters": told_meters}
    done = await desk.act(ride_id, "complete", headers=bearer("driver", driver_id), json=body)
    assert done.status_code == 200, done.text
    assert done.json()["final_fare_cents"] == fare_cents


async def test_prices_are_rounded_to_hundredths(village: Village) -> None:
    # Times a hundred, the first ones are a little less or more than a whole number.
    for price in (19.99, 0.29, 1.1, 0, 15, 1_000_000):
        passenger_id = uuid4()
        token = await village.token(passenger_id, price=price)
        answer = await village.confirm(passenger_id, token, price=price)
        assert answer.status_code == 201, answer.text
        assert answer.json()["ride"]["price"] == price
        rows = await village.sql("SELECT asked_price_cents FROM rides WHERE passenger_id = $1", passenger_id)
        assert rows[0]["asked_price_cents"] == round(price * 100)
