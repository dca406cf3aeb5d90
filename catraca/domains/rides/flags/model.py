"""Rides that an operator should look at, and why."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from catraca.domains.rides.model import RideId

FlagId = NewType("FlagId", UUID)
FlagKind = Literal["takes_too_long", "distance_cut", "ended_too_soon"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """`measured` and `allowed` are meters for `distance_cut`, seconds for the other kinds.

    `allowed` is None for `takes_too_long`: the limit was set when the ride started.
    """

    id: FlagId
    ride_id: RideId
    kind: FlagKind
    measured: int
    allowed: int | None
    flagged_at: datetime
    reviewed_at: datetime | None
    reviewed_by: UUID | None
