"""Bodies and answers of the routes for time off."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.scheduling.shared.schemas import APPOINTMENT_ID, ELEVEN, NINE, WholeMoment, refused
from catraca.platform.forms import Answer, Body, Reason, examples

TIME_OFF: JsonDict = {"starts_at": NINE, "ends_at": ELEVEN, "reason": "Curso"}
TIME_OFF_OUT: JsonDict = {"time_off_id": "0198a8b2-3c00-7000-8000-00000000f0f1", **TIME_OFF}

_IDS = {"type": "array", "items": {"type": "string", "format": "uuid"}}
AGENDA_TAKEN = refused(
    409,
    "The time is in use: `agenda_taken`, with what uses it",
    "agenda_taken",
    'Something is in that time already. First move or cancel "appointments", give "holds" back,'
    ' or end "time_off".',
    {"appointments": [APPOINTMENT_ID], "holds": [], "time_off": []},
    appointments=_IDS,
    holds=_IDS,
    time_off=_IDS,
)


class TimeOffIn(Body):
    model_config = examples(TIME_OFF)

    starts_at: WholeMoment
    ends_at: WholeMoment
    reason: Reason | None = None


class TimeOffOut(Answer):
    model_config = examples(TIME_OFF_OUT)

    time_off_id: Annotated[UUID, Field(validation_alias="id")]
    starts_at: datetime
    ends_at: datetime
    reason: str | None


class TimeOffList(BaseModel):
    model_config = examples({"time_off": [TIME_OFF_OUT]})

    time_off: list[TimeOffOut]
