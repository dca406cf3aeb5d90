"""Responses about flags."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.rides.flags.model import Flag, FlagKind
from catraca.domains.rides.schemas import MOMENT, OFFER_ID, RIDE_ID
from catraca.platform.forms import Answer, Next, split_page


class FlagOut(Answer):
    model_config = ConfigDict(
        from_attributes=True,
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {
                    "flag_id": OFFER_ID,
                    "ride_id": RIDE_ID,
                    "kind": "distance_cut",
                    "measured": 2000000,
                    "allowed": 500,
                    "flagged_at": MOMENT,
                    "reviewed_at": None,
                    "reviewed_by": None,
                }
            ]
        },
    )

    flag_id: UUID = Field(validation_alias="id")
    ride_id: UUID
    kind: FlagKind = Field(
        description="`takes_too_long`: started long ago. `distance_cut`: the driver reported more than was"
        " charged. `ended_too_soon`: the destination cannot have been reached."
    )
    measured: int = Field(description="Metres for `distance_cut`, else seconds.")
    allowed: int | None = Field(description="The limit, in the same unit; null for `takes_too_long`.")
    flagged_at: datetime
    reviewed_at: datetime | None
    reviewed_by: UUID | None = Field(description="The operator.")


class FlagPage(BaseModel):
    flags: list[FlagOut]
    next: Next[UUID]

    @classmethod
    def of(cls, flags: Sequence[Flag], *, limit: int) -> Self:
        page, after = split_page(flags, limit=limit, cursor=lambda flag: flag.id)
        return cls(flags=[FlagOut.model_validate(flag) for flag in page], next=after)
