"""What the audit log's route takes and gives."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.audit.model import ACTION_PATTERN, NAME_MAX_CHARACTERS, Entry

ENTRY: JsonDict = {
    "id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
    "at": "2025-08-14T12:00:00Z",
    "actor_id": "0198a7ef-0000-7c3d-8e4f-5a6b7c8d9e0f",
    "action": "ride.canceled",
    "subject_kind": "ride",
    "subject_id": "0198a7ef-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "data": {"reason": "operator_decision"},
    "request_id": "0198a7f0-5d2e-7c41-9f0a-000000000001",
}

Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Action = Annotated[str, Field(max_length=NAME_MAX_CHARACTERS, pattern=ACTION_PATTERN)]


class EntryOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ENTRY]})

    id: UUID
    at: datetime
    actor_id: UUID | None = Field(
        description="Who acted; null for an event that was noticed, and for the command line."
    )
    action: str = Field(description="What was done, or the event's key.")
    subject_kind: str
    subject_id: str
    data: dict[str, Any] = Field(description="Ids, numbers and codes; nothing of a person.")
    request_id: str | None = Field(description="The request that caused it, if one did.")


class EntryPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [ENTRY], "next": None}]})

    items: list[EntryOut]
    next: UUID | None = Field(description="Ask for what follows with `before` set to this; null at the end.")

    @classmethod
    def of(cls, entries: Sequence[Entry], *, limit: int) -> Self:
        """From one line more than the page takes: what is left over says that there is a next page."""
        items = [EntryOut.model_validate(entry, from_attributes=True) for entry in entries[:limit]]
        return cls(items=items, next=items[-1].id if len(entries) > limit else None)
