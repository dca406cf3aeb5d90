"""HTTP schemas of driver locks."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.schemas import EXAMPLE_ID
from catraca.platform.forms import Body, also_as
from catraca.platform.leases import Lease

MAX_LOCK_SECONDS = 3600


class LockIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ride_id": EXAMPLE_ID, "ttl_seconds": 15}]})

    ride_id: UUID
    ttl_seconds: Annotated[
        float | None,
        also_as("ttl_seconds", "ttl", "The lock expires after this time unless it is renewed or released."),
    ] = Field(default=None, strict=True, ge=1, le=MAX_LOCK_SECONDS)


class LockOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"locked": True, "expires_at": "2031-05-30T14:00:15Z", "fence": 1937829600000000},
                {"locked": False, "reason": "already_locked"},
            ]
        }
    )

    locked: bool
    expires_at: datetime | None = None
    fence: int | None = Field(default=None, description="Larger than the fence of every earlier lock.")
    reason: Literal["already_locked"] | None = None

    @classmethod
    def of(cls, lease: Lease | None) -> Self:
        if lease is None:
            return cls(locked=False, reason="already_locked")
        return cls(locked=True, expires_at=lease.expires_at, fence=lease.fence)


class UnlockOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"released": True}]})

    released: bool = Field(description="False: this ride had no lock on the driver.")
