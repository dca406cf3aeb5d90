"""HTTP schemas of a driver's status."""

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.model import Fault
from catraca.domains.location.presence.model import DriverStatus
from catraca.domains.location.schemas import EXAMPLE_ID, EXAMPLE_PLACE, PingIn
from catraca.platform.forms import Body


class DriverStatusIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"online": True, "position": EXAMPLE_PLACE}]})

    online: bool = Field(strict=True)
    position: PingIn | None = Field(default=None, description="First position; used when going online.")


class DriverStatusOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"driver_id": EXAMPLE_ID, "online": True, "since": "2031-05-30T14:00:00Z"}]
        }
    )

    driver_id: UUID
    online: bool
    since: datetime | None = Field(description="Null: the driver was never online.")
    position_rejected: Fault | None = Field(default=None, description="Why the position was not accepted.")

    @classmethod
    def of(cls, driver_id: UUID, status: DriverStatus) -> Self:
        return cls(
            driver_id=driver_id, online=status.online, since=status.since, position_rejected=status.fault
        )
