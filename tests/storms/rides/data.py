"""Data of the ride storms: rides requested and offered over HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from tests.storms.callers import Caller, JsonAnswer, request, token_of
from tests.storms.rides.ledger import Try

OPERATOR = uuid4()
WAY = {"pickup_lat": -12.9777, "pickup_lon": -38.5016, "dropoff_lat": -13.0102, "dropoff_lon": -38.5326}
LONG_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Offered:
    """A ride, and an attempt to accept it for each driver who has an offer."""

    ride_id: UUID
    passenger_id: UUID
    tries: list[Try]
    expires_at: datetime


async def offer_new_ride(
    caller: Caller, drivers: Sequence[UUID], *, ttl_seconds: float = LONG_SECONDS
) -> Offered:
    passenger_id = uuid4()
    ride_id = await ask_for_ride(caller, passenger_id)
    made = await offer(caller, ride_id, drivers, ttl_seconds=ttl_seconds)
    assert made.status == 201, made.body
    tries = tries_of(ride_id, made)
    assert len(tries) == len(drivers), made.body
    expires_at = datetime.fromisoformat(made.json()["offers"][0]["expires_at"])
    return Offered(ride_id, passenger_id, tries, expires_at)


async def ask_for_ride(caller: Caller, passenger_id: UUID, way: Mapping[str, float] = WAY) -> UUID:
    token = token_of("passenger", passenger_id)
    answer = await caller.ask(request("POST", "/v1/rides", token=token, body=way, key=uuid4().hex))
    assert answer.status == 201, answer.body
    return UUID(answer.json()["ride_id"])


async def offer(caller: Caller, ride_id: UUID, drivers: Sequence[UUID], *, ttl_seconds: float) -> JsonAnswer:
    body = {"driver_ids": [str(driver_id) for driver_id in drivers], "ttl_seconds": ttl_seconds}
    token = token_of("operator", OPERATOR)
    return await caller.ask(
        request("POST", f"/v1/rides/{ride_id}/offers", token=token, body=body, key=uuid4().hex)
    )


def tries_of(ride_id: UUID, made: JsonAnswer) -> list[Try]:
    return [
        Try(ride_id, UUID(one["driver_id"]), UUID(one["offer_id"])) for one in made.json().get("offers", ())
    ]


async def act(caller: Caller, ride_id: UUID, verb: str, *, token: str, **body: object) -> JsonAnswer:
    """Send one of the verbs `arrive`, `start`, `complete` and `cancel`."""
    path = f"/v1/rides/{ride_id}/{verb}"
    return await caller.ask(request("POST", path, token=token, body=body, key=uuid4().hex))


async def reject(caller: Caller, tried: Try) -> JsonAnswer:
    body = {"driver_id": str(tried.driver_id)}
    token = token_of("driver", tried.driver_id)
    return await caller.ask(request("PATCH", f"/v1/rides/{tried.ride_id}/reject", token=token, body=body))
