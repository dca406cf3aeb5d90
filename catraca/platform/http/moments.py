"""Moments as requests write them: a date with its time and its zone."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator
from pydantic_core import PydanticCustomError


def _within_time(moment: datetime) -> datetime:
    """In UTC; the first and last hours of all time would lie beyond it there, and stay where they are."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def _written_out(value: object) -> object:
    """A number could be seconds or milliseconds; only a date with its time says which moment is meant."""
    if isinstance(value, datetime) or (isinstance(value, str) and value[4:5] == "-"):
        return value
    raise PydanticCustomError("datetime_parsing", "not a moment")


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_within_time)]
