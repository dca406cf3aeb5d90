"""Texts of `catraca rides explain`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from catraca.domains.matching import Verdict

# In the order of the output.
VERDICTS: Final[Mapping[Verdict, str]] = {
    "asked_now": "being asked",
    "driving": "driving",
    "held": "held by another ride's offer",
    "locked": "locked by another ride",
    "snatched": "taken by a faster ride",
    "refused_before": "refused before",
    "silent_before": "did not answer before",
    "gave_it_up": "gave it up before",
    "stale": "position too old",
    "outside_fence": "not of the community",
    "may_not_drive": "may not drive",
    "own_ride": "the passenger",
    "too_far": "too far away",
}
WITHDRAWN: Final[Mapping[str, str]] = {
    "driver_offline": "the driver went offline",
    "accepted_by_another_driver": "another driver accepted",
    "ride_canceled": "the ride was canceled",
    "no_drivers_available": "the time was over",
}
MOVES: Final[Mapping[str, str]] = {
    "requested": "requested",
    "woken": "woken: a driver near by is free",
    "arriving": "the driver arrives",
    "started": "the ride begins",
    "completed": "the ride is over",
    "paid": "paid",
    "payment_expired": "not paid in time",
    "expired": "over: no driver was asked in time",
}


def grouped(verdicts: Mapping[Verdict, int]) -> str:
    """Return `2 driving, 1 refused before`; without drivers who were asked or are next."""
    return ", ".join(
        f"{verdicts[verdict]} {words}" for verdict, words in VERDICTS.items() if verdicts.get(verdict)
    )


def passed_over(verdicts: Mapping[Verdict, int]) -> int:
    return sum(count for verdict, count in verdicts.items() if verdict in VERDICTS)


def name(driver_id: UUID | None) -> str:
    """Return a short form of the driver's id."""
    return "no driver" if driver_id is None else str(driver_id)[:8]


def away(meters: int) -> str:
    """Return `420 m`, `1.2 km`, `5 km`: rounded, as positions of phones are imprecise."""
    rough = round(meters, -1)
    return f"{rough} m" if rough < 1000 else f"{meters / 1000:.1f}".removesuffix(".0") + " km"


def clock(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")


def lasting(time: timedelta) -> str:
    """Return `34 s`, `5 min`, `1 h 2 min`."""
    seconds = max(0, round(time.total_seconds()))
    minutes, hours = seconds // 60 % 60, seconds // 3600
    parts = {"h": hours, "min": minutes, "s": 0 if hours else seconds % 60}
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count) or "0 s"


def because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
