"""Request and response bodies of edits, replays and discards."""

from typing import Annotated, Any, Literal, Self
from uuid import UUID

import msgspec
from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.dead_letters.letters.model import Filter, State
from catraca.domains.dead_letters.letters.schemas import BODY, FilterText
from catraca.domains.dead_letters.replay import model
from catraca.platform.forms import Answer, Body, Moment, examples, left_out

FILTER: JsonDict = {"queue": "audit_log_queue", "reason": "KeyError"}

Reason = Annotated[
    str, Field(min_length=1, max_length=model.REASON_MAX_CHARACTERS, pattern=model.REASON_PATTERN)
]


def _without_fraction(value: object) -> object:
    """In JSON 50 and 50.0 are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_without_fraction)]


class NewBody(Body):
    model_config = examples({"body": BODY})

    body: Any = Field(description="Any JSON that the queue of the letter can read.")

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)


class FilterIn(Body):
    """Selects letters that match every given field; `all` selects all letters."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    queue: FilterText = Field(default_factory=left_out)
    reason: FilterText = Field(default_factory=left_out)
    key: FilterText = Field(default_factory=left_out)
    message_id: UUID = Field(default_factory=left_out)
    died_after: Moment = Field(default_factory=left_out)
    died_before: Moment = Field(default_factory=left_out)
    all: Literal[True] = Field(default_factory=left_out)

    def to_filter(self, **more: Any) -> Filter:
        return Filter(**self.model_dump(exclude_unset=True, exclude={"all"}), **more)


class BulkIn(Body):
    filter: FilterIn
    dry_run: bool = Field(
        default=True, strict=True, description="True only counts; false replays or discards."
    )
    limit: Whole = Field(
        default=model.BULK_MAX_LETTERS,
        ge=1,
        le=model.BULK_MAX_LETTERS,
        strict=True,
        description="The oldest letters first.",
    )


class ReplayIn(BulkIn):
    model_config = examples({"filter": FILTER, "rate_per_second": 50, "dry_run": False})

    state: State = "waiting"
    rate_per_second: Whole = Field(
        default=model.RATE_DEFAULT_PER_SECOND, ge=1, le=model.RATE_MAX_PER_SECOND, strict=True
    )


class DiscardIn(Body):
    model_config = examples({"reason": "A test of the old client"})

    reason: Reason


class BulkDiscardIn(BulkIn):
    model_config = examples({"filter": FILTER, "reason": "A test of the old client", "dry_run": False})

    reason: Reason


class ReplayOut(Answer):
    model_config = examples(
        {"dry_run": False, "matched": 17, "replayed": 15, "refused": 2, "left": 0, "seconds": 0.28}
    )

    dry_run: bool
    matched: int = Field(description="Letters that match the filter; counted up to 100 000.")
    replayed: int = Field(validation_alias="done")
    refused: int = Field(description="Matching letters that are not JSON, or whose queue is gone.")
    left: int = Field(description="Matching letters over the limit, or locked by another request.")
    seconds: float = Field(description="How long the relay takes at this rate.")

    @classmethod
    def of(cls, outcome: model.Outcome) -> Self:
        return cls.model_validate(outcome)


class DiscardOut(Answer):
    model_config = examples({"dry_run": False, "matched": 17, "discarded": 17, "left": 0})

    dry_run: bool
    matched: int = Field(description="Letters that match the filter; counted up to 100 000.")
    discarded: int = Field(validation_alias="done")
    left: int = Field(description="Matching letters over the limit, or locked by another request.")

    @classmethod
    def of(cls, outcome: model.Outcome) -> Self:
        return cls.model_validate(outcome)
