"""Request bodies, their fields, and pages of results, as all routes share them."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Generic, LiteralString, Self, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
)
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from catraca.platform.clock import END_OF_MOMENTS, FIRST_DAY, FIRST_MOMENT, LAST_DAY
from catraca.platform.lines import (
    EMAIL_MAX_CHARACTERS,
    EMAIL_PATTERN,
    LINE_PATTERN,
    NAME_MAX_CHARACTERS,
    Malformed,
    clean_email,
    clean_line,
)

Item = TypeVar("Item")
Cursor = TypeVar("Cursor")
Value = TypeVar("Value")


class Body(BaseModel):
    """A request's body. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """A response built from an object with attributes of the same names."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)


def examples(*examples: JsonDict) -> ConfigDict:
    """A `model_config` with examples for OpenAPI."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


def left_out() -> Any:
    """The default of a field that may be left out but not null: `model_fields_set` lists the sent fields."""
    return None


# Fields


def also_as(name: str, other: str, description: str = "") -> FieldInfo:
    """The metadata of a field with two names: `lng: Annotated[Longitude, also_as("lng", "lon")]`.

    OpenAPI has `name` and mentions `other`. A request that has both is refused: the one that is not used
    counts as unknown.
    """
    words = f"{description} Also as `{other}`.".lstrip()
    return Field(validation_alias=AliasChoices(name, other), description=words)


def cleaned(clean: Callable[[str], str]) -> AfterValidator:
    """A validator that normalizes a text; `Malformed` becomes the field's error code."""

    def check(text: str) -> str:
        try:
            return clean(text)
        except Malformed as malformed:
            raise PydanticCustomError(malformed.code, malformed.code) from malformed

    return AfterValidator(check)


def line(max_characters: int) -> tuple[FieldInfo, AfterValidator]:
    """The metadata of a one-line text field: `Annotated[str, *line(80)]`."""
    shape: JsonDict = {"minLength": 1, "maxLength": max_characters, "pattern": LINE_PATTERN}
    return Field(json_schema_extra=shape), cleaned(
        lambda text: clean_line(text, max_characters=max_characters)
    )


def each_once(ids: list[UUID]) -> list[UUID]:
    """A validator that refuses repeated ids."""
    if len(set(ids)) < len(ids):
        raise PydanticCustomError("repeated", "repeated")
    return ids


def _is_number(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, (int, float))
    if ":" in value:  # A time of day. Python is slow to raise and catch the error.
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _no_number(code: LiteralString) -> BeforeValidator:
    """Refuses numbers, also as text: they could be seconds or milliseconds."""

    def check(value: object) -> object:
        if _is_number(value):
            raise PydanticCustomError(code, "a number")
        return value

    return BeforeValidator(check)


def _day_in_range(day: date) -> date:
    if not FIRST_DAY <= day <= LAST_DAY:
        raise PydanticCustomError("date_implausible", "date_implausible")
    return day


def _moment_in_range(moment: datetime) -> datetime:
    if FIRST_MOMENT.year < moment.year < END_OF_MOMENTS.year - 1:
        return moment  # Whatever its offset. Times of different offsets are slow to compare.
    if not FIRST_MOMENT <= moment < END_OF_MOMENTS:
        raise PydanticCustomError("moment_implausible", "moment_implausible")
    return moment


REASON_MAX_CHARACTERS = 300
ADDRESS_MAX_CHARACTERS = 300

Name = Annotated[str, *line(NAME_MAX_CHARACTERS)]
Reason = Annotated[str, *line(REASON_MAX_CHARACTERS)]
Address = Annotated[str, *line(ADDRESS_MAX_CHARACTERS)]
Email = Annotated[
    str,
    Field(max_length=EMAIL_MAX_CHARACTERS, json_schema_extra={"pattern": EMAIL_PATTERN}),
    cleaned(clean_email),
]
Day = Annotated[date, _no_number("date_parsing"), AfterValidator(_day_in_range)]
# With the offset it was sent with.
Moment = Annotated[AwareDatetime, _no_number("datetime_parsing"), AfterValidator(_moment_in_range)]


# Pages

PageLimit = Annotated[int, Query(ge=1, le=100)]
PageCursor = Annotated[UUID | None, Query(description="The previous page's `next`.")]
Next = Annotated[Cursor | None, Field(description="The cursor of the next page; null on the last page.")]


def split_page(
    found: Sequence[Value], *, limit: int, cursor: Callable[[Value], Cursor]
) -> tuple[Sequence[Value], Cursor | None]:
    """The first `limit` values, and the cursor of the next page or None.

    Read `limit + 1` rows: the extra row shows that there is a next page.
    """
    page = found[:limit]
    return page, cursor(page[-1]) if len(found) > limit else None


class Page(BaseModel, Generic[Item, Cursor]):
    """One page of a list. Subclass it to give it a name in OpenAPI: `class UserPage(Page[UserOut, UUID])`."""

    items: list[Item]
    next: Next[Cursor]

    @classmethod
    def split(
        cls,
        found: Sequence[Value],
        *,
        limit: int,
        item: Callable[[Value], Item],
        cursor: Callable[[Value], Cursor],
    ) -> Self:
        """See `split_page`."""
        page, after = split_page(found, limit=limit, cursor=cursor)
        return cls(items=[item(value) for value in page], next=after)
