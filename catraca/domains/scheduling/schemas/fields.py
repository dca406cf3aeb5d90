"""Fields that scheduling's bodies share: times of day, moments, names."""

from datetime import UTC, date, datetime
from typing import Annotated, LiteralString
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from catraca.domains.people import Address
from catraca.domains.scheduling.model.zones import MINUTES_A_DAY

# Around the years in which calendars of people alive are kept; PostgreSQL and Python both know them.
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def _plausible(moment: datetime) -> datetime:
    if not FIRST <= moment < LAST:
        raise PydanticCustomError("moment_implausible", "moment_implausible")
    return moment


def _whole(moment: datetime) -> datetime:
    if moment.microsecond:
        raise PydanticCustomError("moment_not_whole", "moment_not_whole")
    return moment


def _is_number(value: object) -> bool:
    """Which moment or day would be anybody's guess: of seconds or of milliseconds, as a number or as text."""
    if not isinstance(value, str):
        return isinstance(value, (int, float))
    try:
        float(value)
    except ValueError:
        return False
    return True


def _no_number(code: LiteralString) -> BeforeValidator:
    def check(value: object) -> object:
        if _is_number(value):
            raise PydanticCustomError(code, "a number")
        return value

    return BeforeValidator(check)


# Within these years, with the offset it was sent with; whole seconds where it is written down.
Moment = Annotated[AwareDatetime, _no_number("datetime_parsing"), AfterValidator(_plausible)]
WholeMoment = Annotated[Moment, AfterValidator(_whole)]
# A clock on a wall says no offset, so it is no `date-time` as JSON Schema knows them.
LocalTime = Annotated[
    datetime,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$",
            "description": "What the clocks of `time_zone` show then.",
        }
    ),
]
Day = Annotated[date, _no_number("date_parsing")]
Flag = Annotated[bool, Field(strict=True)]
Contact = Annotated[Address, Field(examples=["+5571987654321"])]
TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["09:00"])]
EndOfDay = Annotated[str, Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$", examples=["18:00"])]
ZoneName = Annotated[str, Field(min_length=1, max_length=64, examples=["America/Bahia"])]


class Body(BaseModel):
    """A request's body: fields we do not know are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class Shift(Body):
    """Hours of a day; an end at or before the start is on the next: 22:00-06:00 is a night shift."""

    start: TimeOfDay
    end: EndOfDay

    def minutes(self) -> tuple[int, int]:
        start, end = minute_of(self.start), minute_of(self.end)
        return start, end if end > start else end + MINUTES_A_DAY


def minute_of(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def time_of(minute: int) -> str:
    """24:00 is an end only; past it is the next day's."""
    if minute != MINUTES_A_DAY:
        minute %= MINUTES_A_DAY
    return f"{minute // 60:02}:{minute % 60:02}"


def each_once(ids: list[UUID]) -> list[UUID]:
    if len(set(ids)) < len(ids):
        raise PydanticCustomError("repeated", "repeated")
    return ids


Ids = Annotated[list[UUID], Field(max_length=500), AfterValidator(each_once)]
