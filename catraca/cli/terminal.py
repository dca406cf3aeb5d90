"""Times and foreign text on a terminal."""

from datetime import datetime
from typing import TYPE_CHECKING

from catraca.cli.failures import REFUSED, fail

if TYPE_CHECKING:
    from rich.text import Text


def moment_of(text: str | None) -> datetime | None:
    """The time of an option; without a time zone it is local time."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        fail(f"{text} is not a time, such as 2031-05-30T14:00", REFUSED)


def local_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def visible(text: str) -> "Text":
    """The text without control characters and markup, which a terminal would execute."""
    from rich.text import Text

    return Text("".join(sign if sign.isprintable() else "\ufffd" for sign in text))
