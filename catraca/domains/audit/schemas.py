"""Fields and response bodies of the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import Field
from pydantic.config import JsonDict

from catraca.domains.audit.model import ACTION_PATTERN, NAME_MAX_CHARACTERS, Entry
from catraca.platform.forms import Answer, Page, examples

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

FilterText = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Action = Annotated[str, Field(max_length=NAME_MAX_CHARACTERS, pattern=ACTION_PATTERN)]


class AuditEntryOut(Answer):
    model_config = examples(ENTRY)

    id: UUID
    at: datetime
    actor_id: UUID | None = Field(description="The caller who acted; null for events and the command line.")
    action: str = Field(description="The action, or the key of the event.")
    subject_kind: str
    subject_id: str
    data: dict[str, Any] = Field(description="Ids, numbers and codes; no personal data.")
    request_id: str | None = Field(description="The request that caused it, if any.")


class AuditPage(Page[AuditEntryOut, UUID]):
    model_config = examples({"items": [ENTRY], "next": None})

    @classmethod
    def of(cls, entries: Sequence[Entry], *, limit: int) -> Self:
        return cls.split(
            entries, limit=limit, item=AuditEntryOut.model_validate, cursor=lambda entry: entry.id
        )
