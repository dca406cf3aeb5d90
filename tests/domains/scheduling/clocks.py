"""The dates of the next clock changes."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

DAYS_AHEAD = 4


def next_switch(zone: str, *, back: bool) -> date:
    """The next local day on which clocks are set back or forward, at least `DAYS_AHEAD` days from now."""
    noon = datetime.now(ZoneInfo(zone)).replace(hour=12, minute=0, second=0, microsecond=0)
    for days in range(DAYS_AHEAD, 400):
        before, after = ((noon + timedelta(days=days - 1 + more)).utcoffset() for more in (0, 1))
        assert before is not None
        assert after is not None
        if before != after and (after < before) == back:
            return (noon + timedelta(days=days)).date()
    raise AssertionError(f"{zone} has no further clock change")
