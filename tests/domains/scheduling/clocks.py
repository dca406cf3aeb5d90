"""When clocks are set next."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

DAYS_AHEAD = 4


def next_switch(zone: str, *, back: bool) -> date:
    """The next local day on which clocks there are set back, or forth; some days ahead at least."""
    noon = datetime.now(ZoneInfo(zone)).replace(hour=12, minute=0, second=0, microsecond=0)
    for days in range(DAYS_AHEAD, 400):
        before, after = ((noon + timedelta(days=days - 1 + more)).utcoffset() for more in (0, 1))
        assert before is not None
        assert after is not None
        if before != after and (after < before) == back:
            return (noon + timedelta(days=days)).date()
    raise AssertionError(f"clocks in {zone} are not set any more")
