"""Community rides and confirmed fallbacks: the contract's six scenarios against real processes.

Repeats go to a second process. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.platform.texts import Language
from tests.conftest import bearer
from tests.domains.geofences.village import OUTSIDE_METERS, PATH, PORTUGUESE, digest, square
from tests.domains.notifications.devices import opened
from tests.journeys.fleet.people import STEP, Journey, Quarter
from tests.journeys.fleet.processes import PATIENCE_SECONDS, MatchingFleet

pytestmark = pytest.mark.xdist_group("rides")

SHORT_SECONDS = 2
OVER: dict[Language, str] = {
    "pt-BR": "O prazo para confirmar acabou. Solicite a corrida novamente.",
    "en": "The time to confirm is over. Ask for the ride again.",
}


@dataclass
class Community:
    """A fence in a place of the world that no other test uses."""

    fleet: MatchingFleet
    quarter: Quarter
    apis: "cycle[httpx.AsyncClient]" = field(init=False)

    def __post_init__(self) -> None:
        self.apis = cycle([self.fleet.patient, self.fleet.hasty])

    async def settle(self, **rules: Any) -> "Community":
        fence = square(self.quarter.lat, self.quarter.lng)
        body = {"name": "Vila", "fence": fence, **rules}
        answer = await self.fleet.patient.post("/v1/communities", json=body, headers=bearer("operator"))
        assert answer.status_code == 201, answer.text
        return self

    async def post(self, passenger_id: UUID, **body: Any) -> httpx.Response:
        """Send to the two processes in turn."""
        return await next(self.apis).post(
            PATH,
            json={"passengerId": str(passenger_id), **body},
            headers=bearer("passenger", passenger_id) | PORTUGUESE,
        )

    async def ask(self, passenger_id: UUID) -> httpx.Response:
        place = {"passengerLat": self.quarter.lat, "passengerLng": self.quarter.lng}
        words = {"origin": "Origem", "destination": "Destino", "price": 15.50}
        return await self.post(passenger_id, type="comunidade", **place, **words)

    async def token(self, passenger_id: UUID) -> str:
        answer = await self.ask(passenger_id)
        assert answer.status_code == 202, answer.text
        return answer.json()["confirmationToken"]

    async def confirm(self, passenger_id: UUID, token: str) -> httpx.Response:
        return await self.post(passenger_id, confirmationToken=token)

    async def until_over(self, token: str) -> None:
        """Wait until the token's time has passed, used or not."""
        query = "SELECT expires_at < clock_timestamp() FROM ride_confirmations WHERE token_hash = $1"
        await self.fleet.until(partial(self.value, query, token))

    async def value(self, query: str, token: str) -> Any:
        async with self.fleet.office.database.connection() as db:
            return await db.fetchval(query, digest(token))

    async def rides_of(self, passenger_id: UUID) -> list[str]:
        answer = await self.fleet.patient.get("/v1/rides", headers=bearer("passenger", passenger_id))
        return [ride["ride_id"] for ride in answer.json()["rides"]]


@pytest.fixture
async def community(here: MatchingFleet) -> Community:
    return await Community(here, Quarter(here)).settle()


@pytest.fixture
async def hasty_community(here: MatchingFleet) -> Community:
    return await Community(here, Quarter(here)).settle(confirmation_ttl_seconds=SHORT_SECONDS)


async def test_scenario_1_a_token_is_issued_and_lasts_five_minutes(community: Community) -> None:
    passenger_id = uuid4()
    first, second = await community.ask(passenger_id), await community.ask(passenger_id)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.content == second.content, "both processes say the same"
    body = first.json()
    assert (body["success"], body["requiresConfirmation"], body["ttlMinutes"]) == (False, True, 5)
    assert body["message"] == (
        "Nenhum motorista disponível na sua comunidade. Confirme para buscar motoristas de outras áreas."
    )
    asked_at = await community.value(
        "SELECT created_at FROM ride_confirmations WHERE token_hash = $1", body["confirmationToken"]
    )
    left = datetime.fromisoformat(body["expiresAt"]) - asked_at
    assert round(left.total_seconds(), 1) == timedelta(minutes=5).total_seconds()
    assert await community.rides_of(passenger_id) == []


async def test_scenario_2_repeated_confirmations_make_one_ride(
    here: MatchingFleet, community: Community
) -> None:
    driver_id, passenger_id = await community.quarter.driver(OUTSIDE_METERS / 100), uuid4()
    token = await community.token(passenger_id)
    answers = [await community.confirm(passenger_id, token) for _ in range(3)]
    assert [one.status_code for one in answers] == [201, 200, 200]
    assert [one.json()["message"] for one in answers] == [
        "Corrida fora da cerca criada com sucesso",
        *["Corrida já criada anteriormente"] * 2,
    ]
    ride_ids = {one.json()["rideId"] for one in answers}
    assert [*ride_ids] == await community.rides_of(passenger_id)
    ride = Journey(here, UUID(ride_ids.pop()), passenger_id)
    await ride.until_asked(driver_id)
    await ride.accept(driver_id)
    await ride.until_published("ride.matched")
    await ride.drive(driver_id)
    late = await community.confirm(passenger_id, token)
    assert (late.status_code, late.json()["ride"]["status"]) == (200, "COMPLETED")
    assert [key for key, _ in await ride.events()].count("ride.requested") == 1


async def expect_expiry_notice(community: Community, language: Language) -> None:
    passenger_id = uuid4()
    headers = bearer("passenger", passenger_id)
    api = community.fleet.hasty
    assert (await api.patch("/v1/me", json={"language": language}, headers=headers)).status_code == 200
    async with opened(str(api.base_url).rstrip("/"), headers) as device:
        asked = (await community.ask(passenger_id)).json()
        async with asyncio.timeout(PATIENCE_SECONDS):  # heartbeats never end
            (notice,) = await device.notices(1)
        token = asked["confirmationToken"]
        confirmation_id = await community.value(
            "SELECT id FROM ride_confirmations WHERE token_hash = $1", token
        )
        assert (notice["type"], notice["data"]) == (
            "ride.confirmation_expired",
            {
                "message": OVER[language],
                "confirmation_id": str(confirmation_id),
                "expired_at": asked["expiresAt"],
                "actions": ["retry_same_location"],
            },
        )
        late = await community.confirm(passenger_id, token)
        assert (late.status_code, late.json()["code"]) == (410, "confirmation_token_expired")
        assert late.json()["detail"] == OVER["pt-BR"], "in the language of this request"
        assert await community.token(passenger_id) != token, "asked for again, it is a new question"
        assert await community.rides_of(passenger_id) == []


async def test_scenario_3_an_expired_token_is_notified_and_refused(hasty_community: Community) -> None:
    await asyncio.gather(*(expect_expiry_notice(hasty_community, language) for language in OVER))


async def test_scenario_3_a_used_token_never_expires(hasty_community: Community) -> None:
    passenger_id = uuid4()

    async def confirmed() -> httpx.Response | None:
        """None if the token expired first, as on a slow machine."""
        answer = await hasty_community.confirm(passenger_id, await hasty_community.token(passenger_id))
        assert answer.status_code in (201, 410), answer.text
        return answer if answer.status_code == 201 else None

    first = await hasty_community.fleet.until(confirmed)
    token = first.request.read().decode().partition('"confirmationToken":"')[2][:64]
    await hasty_community.until_over(token)
    late = await hasty_community.confirm(passenger_id, token)
    assert (late.status_code, late.json()["rideId"]) == (200, first.json()["rideId"])


async def test_scenario_4_another_users_token_is_not_found(community: Community) -> None:
    passenger_id, stranger_id = uuid4(), uuid4()
    token = await community.token(passenger_id)
    answers = [await community.confirm(stranger_id, one) for one in (token, "0" * 64)]
    theirs, unknown = [(one.status_code, one.json() | {"request_id": None}) for one in answers]
    assert theirs == unknown
    assert (theirs[0], theirs[1]["code"]) == (404, "confirmation_token_invalid")
    in_their_name = await community.fleet.patient.post(
        PATH,
        json={"passengerId": str(passenger_id), "confirmationToken": token},
        headers=bearer("passenger", stranger_id),
    )
    assert in_their_name.status_code == 403
    assert await community.rides_of(passenger_id) == await community.rides_of(stranger_id) == []
    assert (await community.confirm(passenger_id, token)).status_code == 201


async def test_scenario_5_expired_tokens_are_pruned_and_used_ones_kept(
    here: MatchingFleet, community: Community
) -> None:
    used_by, passenger_id = uuid4(), uuid4()
    used, unused = await community.token(used_by), await community.token(passenger_id)
    first = await community.confirm(used_by, used)
    two_days_earlier = (
        "UPDATE ride_confirmations SET created_at = created_at - interval '2 days',"
        " expires_at = expires_at - interval '2 days', used_at = used_at - interval '2 days',"
        " expired_at = expired_at - interval '2 days' WHERE token_hash = $1"
    )
    await community.value(two_days_earlier, used)
    await community.value(two_days_earlier, unused)
    await community.value(
        "UPDATE timers SET due_at = c.expires_at, awake_at = c.expires_at FROM ride_confirmations c"
        " WHERE c.id = subject_id AND token_hash = $1",
        unused,
    )
    closed = "SELECT expired_at IS NOT NULL FROM ride_confirmations WHERE token_hash = $1"
    await here.until(partial(community.value, closed, unused))
    await community.value(two_days_earlier, unused)
    here.office.processes.append(here.office.start(("housekeeper",)))
    gone = "SELECT NOT EXISTS (SELECT FROM ride_confirmations WHERE token_hash = $1)"
    await here.until(partial(community.value, gone, unused))
    assert (await community.confirm(passenger_id, unused)).status_code == 404
    late = await community.confirm(used_by, used)
    assert (late.status_code, late.json()["rideId"]) == (200, first.json()["rideId"])


async def test_scenario_6_concurrent_confirmations_make_one_ride(community: Community) -> None:
    for _ in range(3):
        passenger_id = uuid4()
        token = await community.token(passenger_id)
        answers = await asyncio.gather(*(community.confirm(passenger_id, token) for _ in range(40)))
        assert sorted(one.status_code for one in answers) == [200] * 39 + [201]
        (ride_id,) = await community.rides_of(passenger_id)
        assert {one.json()["rideId"] for one in answers} == {ride_id}


async def test_a_community_driver_in_time_gets_the_first_offer(
    here: MatchingFleet, community: Community
) -> None:
    """A driver from elsewhere is nearer."""
    passenger_id = uuid4()
    token = await community.token(passenger_id)
    near, own = await community.quarter.drivers(OUTSIDE_METERS / 100, OUTSIDE_METERS / 100 + 40)
    found = await here.patient.get(
        "/v1/communities/at",
        params={"lat": community.quarter.lat + STEP, "lng": community.quarter.lng},
        headers=bearer("operator"),
    )
    home = {"driver": {"home_community_id": found.json()["communities"][0]["community_id"]}}
    settled = await here.patient.patch("/v1/me", json=home, headers=bearer("driver", own))
    assert settled.status_code == 200, settled.text
    answer = await community.confirm(passenger_id, token)
    assert answer.json()["message"] == "Corrida criada com sucesso: há um motorista na sua comunidade"
    ride = Journey(here, UUID(answer.json()["rideId"]), passenger_id)
    await ride.until_asked(own)
    await ride.reject(own)
    await ride.until_asked(near)
    await ride.accept(near)
    await ride.until_published("ride.matched")
