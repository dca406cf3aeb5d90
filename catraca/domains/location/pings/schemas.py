"""HTTP schemas of pings."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from catraca.domains.location.model import DriverId, Fault, SentPings, Source
from catraca.domains.location.pings.service import PingResults
from catraca.domains.location.schemas import EXAMPLE_ID, EXAMPLE_PLACE, PingIn

MAX_PINGS = 100
# About as many as the largest body holds.
MAX_GATEWAY_PINGS = 500


class GatewayPingIn(PingIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"driver_id": EXAMPLE_ID, **EXAMPLE_PLACE}]})

    driver_id: UUID


PingList = Annotated[list[PingIn], Field(min_length=1, max_length=MAX_PINGS)]
PingsIn = Annotated[
    Annotated[PingIn, Tag("one")] | Annotated[PingList, Tag("list")],
    Discriminator(lambda sent: "list" if isinstance(sent, list) else "one"),
]
GatewayPingsIn = Annotated[list[GatewayPingIn], Field(min_length=1, max_length=MAX_GATEWAY_PINGS)]


def sent_pings(body: Sequence[GatewayPingIn], now: datetime) -> SentPings:
    return SentPings([DriverId(one.driver_id) for one in body], [one.to_ping(now) for one in body])


class Rejected(BaseModel):
    index: int = Field(description="The ping's index in the request, from 0.")
    code: Fault | Literal["offline"] = Field(description="Why the ping was not accepted.")


class PingsOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"accepted": 2, "rejected": [{"index": 1, "code": "stale"}], "kept_in": "redis"}]
        }
    )

    accepted: int
    rejected: list[Rejected]
    kept_in: Source = Field(description="`database`: Redis is down, and positions are stored less often.")

    @classmethod
    def of(cls, results: PingResults) -> Self:
        rejected = [
            Rejected(index=number, code=outcome)
            for number, outcome in enumerate(results.outcomes)
            if outcome is not None
        ]
        accepted = len(results.outcomes) - len(rejected)
        return cls(accepted=accepted, rejected=rejected, kept_in=results.source)
