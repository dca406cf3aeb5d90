"""What the routes of dead letters take and give."""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.dead_letters import model
from catraca.domains.dead_letters.model import (
    Filter,
    Group,
    Letter,
    ListedLetter,
    OpenLetter,
    Outcome,
    State,
)
from catraca.platform.errors import BodyMalformed
from catraca.platform.forms import Moment
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
FILTER: JsonDict = {"queue": "audit_log_queue", "reason": "KeyError"}


Name = Annotated[str, Field(min_length=1, max_length=model.NAME_MAX_CHARACTERS)]
Reason = Annotated[
    str, Field(min_length=1, max_length=model.REASON_MAX_CHARACTERS, pattern=model.REASON_PATTERN)
]


def _left_out() -> Any:
    """For fields that may be left out but not emptied: only those that were sent count."""
    return None


def _whole(value: object) -> object:
    """JSON knows no difference between 50 and 50.0; a text is no number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Body(BaseModel):
    """A request's body: fields we do not know are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class LetterOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [LETTER]})

    id: UUID
    queue: str = Field(description="Where it died, and where a replay goes.")
    reason: str = Field(description="Why, as a code: a refusal's, an error's type, or the reader's.")
    exchange: str
    key: str
    message_id: UUID
    state: State
    died_at: datetime = Field(description="The last time, if it died more than once.")
    times: int = Field(description="How often it died there.")
    size_bytes: int
    replayable: bool = Field(description="Whether its body is JSON; else it must be edited before a replay.")
    decided_at: datetime | None
    decided_by: UUID | None = Field(description="Null for the command line.")
    decision_reason: str | None
    edited_at: datetime | None
    edited_by: UUID | None

    @classmethod
    def of(cls, letter: Letter) -> Self:
        return cls(**_said_of(letter))


class ListedLetterOut(LetterOut):
    model_config = ConfigDict(json_schema_extra={"examples": [{**LETTER, "shape": SHAPE}]})

    shape: Any = Field(
        description="The body with a mark for every value, cut where it is large; null if it is too large"
        " to show, or no JSON."
    )

    @classmethod
    def of_listed(cls, letter: ListedLetter) -> Self:
        return cls(**_said_of(letter), shape=letter.shape)


class LetterPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{**LETTER, "shape": SHAPE}], "next": None}]}
    )

    items: list[ListedLetterOut]
    next: UUID | None = Field(description="Ask for what follows with `after` set to this; null at the end.")

    @classmethod
    def of(cls, letters: Sequence[ListedLetter], *, limit: int) -> Self:
        """From one letter more than the page takes: what is left over says that there is a next page."""
        items = [ListedLetterOut.of_listed(letter) for letter in letters[:limit]]
        return cls(items=items, next=items[-1].id if len(letters) > limit else None)


class GroupOut(BaseModel):
    queue: str
    reason: str
    count: int = Field(description="Counted up to 10 000.")
    oldest_at: datetime
    newest_at: datetime


class GroupsOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {
                            "queue": "audit_log_queue",
                            "reason": "KeyError",
                            "count": 17,
                            "oldest_at": "2025-08-14T11:00:00Z",
                            "newest_at": "2025-08-14T12:00:00Z",
                        }
                    ]
                }
            ]
        }
    )

    items: list[GroupOut] = Field(description="The largest first, at most 1000.")

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Self:
        return cls(items=[GroupOut.model_validate(group, from_attributes=True) for group in groups])


class BodyOut(BaseModel):
    """As JSON where it can be shown so without changing it, else as text, else as base64."""

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
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    **LETTER,
                    "headers": HEADERS,
                    "body": {"form": "json", "value": BODY},
                    "original_body": None,
                }
            ]
        }
    )

    headers: dict[str, Any]
    body: BodyOut
    original_body: BodyOut | None = Field(description="What it died with first, if it was edited since.")

    @classmethod
    def of_open(cls, letter: OpenLetter) -> Self:
        return cls(
            **_said_of(letter),
            headers=msgspec.to_builtins(letter.headers),
            body=BodyOut.of(letter.body),
            original_body=None if letter.original_body is None else BodyOut.of(letter.original_body),
        )


def _said_of(letter: Letter) -> dict[str, Any]:
    same = {name: getattr(letter, name) for name in LetterOut.model_fields if name != "replayable"}
    return {**same, "replayable": letter.is_json}


class NewBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"body": BODY}]})

    body: Any = Field(description="Any JSON that the queue it died in can read.")

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)


class FilterIn(Body):
    """Letters that fit every field given; `all` where none is meant to be left out."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    queue: Name = Field(default_factory=_left_out)
    reason: Name = Field(default_factory=_left_out)
    key: Name = Field(default_factory=_left_out)
    message_id: UUID = Field(default_factory=_left_out)
    died_after: Moment = Field(default_factory=_left_out)
    died_before: Moment = Field(default_factory=_left_out)
    all: Literal[True] = Field(default_factory=_left_out)

    def to_filter(self, **more: Any) -> Filter:
        return Filter(**self.model_dump(exclude_unset=True, exclude={"all"}), **more)


class BulkIn(Body):
    filter: FilterIn
    dry_run: bool = Field(
        default=True, strict=True, description="Only say what would happen; send false to do it."
    )
    limit: Whole = Field(
        default=model.BULK_MAX_LETTERS,
        ge=1,
        le=model.BULK_MAX_LETTERS,
        strict=True,
        description="The oldest first.",
    )


class ReplayIn(BulkIn):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"filter": FILTER, "rate_per_second": 50, "dry_run": False}]}
    )

    state: State = "waiting"
    rate_per_second: Whole = Field(
        default=model.RATE_DEFAULT_PER_SECOND, ge=1, le=model.RATE_MAX_PER_SECOND, strict=True
    )


class DiscardIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "A test of the old client"}]})

    reason: Reason


class BulkDiscardIn(BulkIn):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"filter": FILTER, "reason": "A test of the old client", "dry_run": False}]
        }
    )

    reason: Reason


class ReplayOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"dry_run": False, "matched": 17, "replayed": 15, "refused": 2, "left": 0, "seconds": 0.28}
            ]
        }
    )

    dry_run: bool
    matched: int = Field(description="Letters the filter means; counted up to 100 000.")
    replayed: int
    refused: int = Field(description="Of them, those that are no JSON, or whose queue is gone.")
    left: int = Field(description="Of them, those beyond the limit, or in somebody else's hand.")
    seconds: float = Field(description="How long the relay takes at this rate.")

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        return cls(
            dry_run=outcome.dry_run,
            matched=outcome.matched,
            replayed=outcome.done,
            refused=outcome.refused,
            left=outcome.left,
            seconds=outcome.seconds,
        )


class DiscardOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dry_run": False, "matched": 17, "discarded": 17, "left": 0}]}
    )

    dry_run: bool
    matched: int = Field(description="Letters the filter means; counted up to 100 000.")
    discarded: int
    left: int = Field(description="Of them, those beyond the limit, or in somebody else's hand.")

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        return cls(
            dry_run=outcome.dry_run, matched=outcome.matched, discarded=outcome.done, left=outcome.left
        )
