"""What the refusals of scheduling say beside their code, for the OpenAPI document."""

from typing import Any

from catraca.domains.scheduling.schemas import examples
from catraca.platform.http.problems import MEDIA_TYPE, SCHEMA_REF

_IDS = {"type": "array", "items": {"type": "string", "format": "uuid"}}
_ALTERNATIVES = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/SlotOut"},
    "description": "The nearest slots that are free, in order; empty if there are none within a week.",
}
_FAULTS = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Why that time is not offered, as `/availability/explain` calls it;"
    " `no_worker`: nobody, or not that worker, does this.",
}


def _refused(
    status: int, description: str, code: str, detail: str, example: dict[str, Any], **members: dict[str, Any]
) -> dict[int | str, dict[str, Any]]:
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


SLOT_TAKEN = _refused(
    409,
    "Somebody was faster: `slot_taken`, with the nearest `alternatives`",
    "slot_taken",
    'Somebody was faster. These times are still free: see "alternatives".',
    {"alternatives": [examples.SLOT]},
    alternatives=_ALTERNATIVES,
)
SLOT_NOT_OFFERED = _refused(
    422,
    "The request is wrong; or that time is not offered: `slot_not_offered`, with `faults` and `alternatives`",
    "slot_not_offered",
    'That time is not offered; "faults" says why, "alternatives" what is free near it.',
    {"faults": ["off_grid"], "alternatives": [examples.SLOT]},
    faults=_FAULTS,
    alternatives=_ALTERNATIVES,
)
AGENDA_TAKEN = _refused(
    409,
    "Something is in that time: `agenda_taken`, with what",
    "agenda_taken",
    'Something is in that time already. First move or cancel "appointments", give "holds" back,'
    ' or end "time_off".',
    {"appointments": [examples.APPOINTMENT], "holds": [], "time_off": []},
    appointments=_IDS,
    holds=_IDS,
    time_off=_IDS,
)
