"""Request fields, example values and refusals that the features of scheduling share."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.platform.forms import Address, Moment, each_once
from catraca.platform.http.problems import MEDIA_TYPE, SCHEMA_REF


def _whole(moment: datetime) -> datetime:
    if moment.microsecond:
        raise PydanticCustomError("moment_not_whole", "moment_not_whole")
    return moment


# Whole seconds where it is stored.
WholeMoment = Annotated[Moment, AfterValidator(_whole)]
# A local time has no offset, so it is not a `date-time` of JSON Schema.
LocalTime = Annotated[
    datetime,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$",
            "description": "The local time in `time_zone`.",
        }
    ),
]
RetiredFlag = Annotated[bool, Field(strict=True, description="Cannot be booked any more.")]
Contact = Annotated[Address, Field(examples=["+5571987654321"])]
Ids = Annotated[list[UUID], Field(max_length=500), AfterValidator(each_once)]


# Examples: one clinic

WORKER_ID = "0198a8b2-3c00-7000-8000-00000000a0a1"
SERVICE_ID = "0198a8b2-3c00-7000-8000-00000000b0b1"
ROOM_ID = "0198a8b2-3c00-7000-8000-00000000c0c1"
HOLD_ID = "0198a8b2-3c00-7000-8000-00000000d0d1"
APPOINTMENT_ID = "0198a8b2-3c00-7000-8000-00000000d0d2"
OTHER_APPOINTMENT_ID = "0198a8b2-3c00-7000-8000-00000000d0d3"
NINE, TEN, ELEVEN = "2026-12-01T12:00:00Z", "2026-12-01T13:00:00Z", "2026-12-01T14:00:00Z"
REQUESTED_TIME: JsonDict = {"service_id": SERVICE_ID, "worker_id": WORKER_ID, "starts_at": NINE}


# Refusals in OpenAPI


def refused(
    status: int, description: str, code: str, detail: str, example: dict[str, Any], **members: dict[str, Any]
) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: a refusal with the members that it has beside those of every problem."""
    problem = {
        "type": f"urn:catraca:problem:{code}",
        "title": {409: "Conflict", 422: "Unprocessable Content"}[status],
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
        **example,
    }
    schema = {"allOf": [{"$ref": SCHEMA_REF}, {"type": "object", "properties": members}]}
    return {
        status: {"description": description, "content": {MEDIA_TYPE: {"schema": schema, "example": problem}}}
    }
