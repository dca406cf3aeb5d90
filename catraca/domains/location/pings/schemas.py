"""HTTP schemas of pings."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from catraca.domains.location.model import DriverId, Fault, Ping, Source
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


def pings_by_driver(sent: Sequence[GatewayPingIn], now: datetime) -> dict[DriverId, list[Ping]]:
    pings: dict[DriverId, list[Ping]] = {}
    for one in sent:
        pings.setdefault(DriverId(one.driver_id), []).append(one.to_ping(now))
    return pings


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
    def of(cls, results: PingResults, senders: Sequence[DriverId]) -> Self:
        """`senders` has the driver of each ping, in the order of the request."""
        left: Mapping[DriverId, list[Fault | None]] = {
            driver_id: faults[::-1] for driver_id, faults in results.faults.items()
        }
        rejected: list[Rejected] = []
        for number, driver_id in enumerate(senders):
            code = "offline" if driver_id in results.offline else left[driver_id].pop()
            if code is not None:
                rejected.append(Rejected(index=number, code=code))
        return cls(accepted=len(senders) - len(rejected), rejected=rejected, kept_in=results.source)
