"""Response bodies of stored dead letters."""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import msgspec
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.dead_letters.letters.model import (
    NAME_MAX_CHARACTERS,
    Group,
    ListedLetter,
    OpenLetter,
    State,
)
from catraca.platform.errors import BodyMalformed
from catraca.platform.forms import Answer, Page, examples
from catraca.platform.http.strict_json import parse_json

LETTER: JsonDict = {
    "id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
    "queue": "audit_log_queue",
    "reason": "KeyError",
    "exchange": "users.events",
    "key": "user.created",
    "message_id": "0198a7ef-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "state": "waiting",
    "died_at": "2025-08-14T12:00:00Z",
    "times": 1,
    "size_bytes": 120,
    "replayable": True,
    "decided_at": None,
    "decided_by": None,
    "decision_reason": None,
    "edited_at": None,
    "edited_by": None,
}
SHAPE: JsonDict = {"event_type": "[text]", "user_id": "[text]", "roles": ["[text]"], "timestamp": "[text]"}
BODY: JsonDict = {
    "event_type": "user.created",
    "user_id": "0198a7ef-0000-7c3d-8e4f-5a6b7c8d9e0f",
    "roles": ["driver"],
    "timestamp": "2025-08-14T11:59:59Z",
}
HEADERS: JsonDict = {"aggregate_id": "0198a7ef-0000-7c3d-8e4f-5a6b7c8d9e0f", "seq": 1, "retries": 3}
GROUP: JsonDict = {
    "queue": "audit_log_queue",
    "reason": "KeyError",
    "count": 17,
    "oldest_at": "2025-08-14T11:00:00Z",
    "newest_at": "2025-08-14T12:00:00Z",
}

FilterText = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)]


class LetterOut(Answer):
    model_config = examples(LETTER)

    id: UUID
    queue: str = Field(description="The queue it died in; replays go there.")
    reason: str = Field(description="A code: of a refusal, of the reader, or the type of an error.")
    exchange: str
    key: str
    message_id: UUID
    state: State
    died_at: datetime = Field(description="The last time it died.")
    times: int = Field(description="How often it died in this queue.")
    size_bytes: int
    replayable: bool = Field(
        validation_alias="is_json",
        description="False if the body is not JSON: it must be edited before a replay.",
    )
    decided_at: datetime | None
    decided_by: UUID | None = Field(description="Null for the command line.")
    decision_reason: str | None
    edited_at: datetime | None
    edited_by: UUID | None


class ListedLetterOut(LetterOut):
    model_config = examples({**LETTER, "shape": SHAPE})

    shape: Any = Field(
        description="The body with a mark in place of every value, cut if it is large; null if it is too"
        " large to show, or not JSON."
    )


class LetterPage(Page[ListedLetterOut, UUID]):
    model_config = examples({"items": [{**LETTER, "shape": SHAPE}], "next": None})

    @classmethod
    def of(cls, letters: Sequence[ListedLetter], *, limit: int) -> Self:
        return cls.split(
            letters, limit=limit, item=ListedLetterOut.model_validate, cursor=lambda letter: letter.id
        )


class GroupOut(Answer):
    queue: str
    reason: str
    count: int = Field(description="Counted up to 10 000.")
    oldest_at: datetime
    newest_at: datetime


class GroupsOut(BaseModel):
    model_config = examples({"items": [GROUP]})

    items: list[GroupOut] = Field(description="The largest first, at most 1000.")

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Self:
        return cls(items=[GroupOut.model_validate(group) for group in groups])


class BodyOut(BaseModel):
    """As JSON if that shows it unchanged, else as text, else as base64."""

    form: Literal["json", "text", "base64"]
    value: Any

    @classmethod
    def of(cls, body: bytes) -> Self:
        try:
            return cls(form="json", value=parse_json(body))
        except BodyMalformed:
            pass
        try:
            return cls(form="text", value=body.decode())
        except UnicodeDecodeError:
            return cls(form="base64", value=base64.b64encode(body).decode())


class OpenLetterOut(LetterOut):
    model_config = examples(
        {**LETTER, "headers": HEADERS, "body": {"form": "json", "value": BODY}, "original_body": None}
    )

    headers: dict[str, Any]
    body: BodyOut
    original_body: BodyOut | None = Field(description="The first body of an edited letter.")

    @classmethod
    def of(cls, letter: OpenLetter) -> Self:
        original = letter.original_body
        return cls(
            **LetterOut.model_validate(letter).model_dump(),
            headers=msgspec.to_builtins(letter.headers),
            body=BodyOut.of(letter.body),
            original_body=None if original is None else BodyOut.of(original),
        )
