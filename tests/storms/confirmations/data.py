"""Data of the confirmation storms: a community without drivers, and passengers with open questions."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from catraca.domains.communities import CommunityId, Rules
from catraca.domains.communities.service import create_community
from catraca.platform.database import Database
from tests.domains.geofences.village import PATH, request_body, square
from tests.storms.callers import Caller, request, token_of

# The time to confirm: an hour, and hardly any.
PATIENT_SECONDS, BRIEF_SECONDS = 3600, 2
APART_DEGREES = 1


@dataclass(frozen=True, slots=True)
class Village:
    lat: float
    lng: float

    def asked(self) -> dict[str, Any]:
        return request_body(self.lat, self.lng)


@dataclass(frozen=True, slots=True)
class Question:
    """A passenger's open confirmation of drivers from elsewhere."""

    passenger_id: UUID
    asked: dict[str, Any]
    token: str
    expires_at: datetime


async def settle_village(database: Database, *, ttl_seconds: int) -> Village:
    """Create a community far from all others."""
    async with database.transaction() as db:
        number = await db.fetchval("SELECT count(*) FROM communities")
        village = Village(-30 + number * APART_DEGREES, -50)
        rules = Rules(name="Vila", confirmation_ttl_seconds=ttl_seconds)
        fence = json.dumps(square(village.lat, village.lng))
        await create_community(db, CommunityId(uuid4()), rules, fence, by=None)
    return village


async def ask_in(caller: Caller, village: Village, passenger_id: UUID | None = None) -> Question:
    """Request a ride as a new passenger, or as the given one."""
    passenger_id, asked = passenger_id or uuid4(), village.asked()
    answer = await caller.ask(_request(passenger_id, asked))
    assert answer.status == 202, answer.body
    answered = answer.json()
    expires_at = datetime.fromisoformat(answered["expiresAt"])
    return Question(passenger_id, asked, answered["confirmationToken"], expires_at)


def ask_request(question: Question) -> bytes:
    """The request for the same ride again."""
    return _request(question.passenger_id, question.asked)


def confirm_request(question: Question, *, repeats_ride: bool = False) -> bytes:
    """A confirmation with the token alone, or with the fields of the requested ride too."""
    ride = question.asked if repeats_ride else {}
    return _request(question.passenger_id, {"confirmationToken": question.token, **ride})


def _request(passenger_id: UUID, body: dict[str, Any]) -> bytes:
    token = token_of("passenger", passenger_id)
    return request("POST", PATH, token=token, body={"passengerId": str(passenger_id), **body})
