"""Request bodies about drivers."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from catraca.domains.people.drivers import model
from catraca.domains.people.drivers.model import Verdict
from catraca.platform.forms import Body, Reason, cleaned, examples, line

Vehicle = Annotated[str, *line(model.VEHICLE_MAX_CHARACTERS)]
Plate = Annotated[str, Field(json_schema_extra={"pattern": model.PLATE_PATTERN}), cleaned(model.clean_plate)]


class DriverPatch(Body):
    vehicle: Vehicle | None = None
    plate: Plate | None = Field(default=None, description="Stored in capitals, without separators.")
    home_community_id: UUID | None = None


class ApprovalIn(Body):
    model_config = examples({"approval": "suspended", "reason": "Seguro vencido"})

    approval: Verdict
    reason: Reason | None = Field(default=None, description="Shown to the driver.")
