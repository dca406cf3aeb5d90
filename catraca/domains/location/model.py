"""Drivers and pings as values, and the rules by which a ping is accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.platform.geo import Place, straight_line_meters

DriverId = NewType("DriverId", UUID)
Fault = Literal["stale", "future_dated", "imprecise", "out_of_order", "impossible"]
# Pings with any other fault still prove that the driver's phone is connected now.
UNTIMELY: Final[frozenset[Fault]] = frozenset({"stale", "future_dated"})
# Where an answer was read from.
Source = Literal["redis", "database"]

# The limit of Redis's geographic index.
MAX_LATITUDE: Final = 85.0
# Assumed where a phone sends no accuracy.
DEFAULT_ACCURACY_METERS: Final = 50.0


@dataclass(frozen=True, slots=True)
class Ping:
    """A driver's position at a time, as the driver's phone sent it."""

    place: Place
    at: datetime
    accuracy_meters: float | None = None
    speed_mps: float | None = None
    heading_degrees: float | None = None

    @property
    def error_meters(self) -> float:
        """How far the true position may be from `place`."""
        return DEFAULT_ACCURACY_METERS if self.accuracy_meters is None else self.accuracy_meters


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRules:
    """Limits that an accepted ping satisfies."""

    max_age: timedelta = timedelta(seconds=60)
    # Phone clocks differ a little from ours.
    max_ahead: timedelta = timedelta(seconds=5)
    max_speed_mps: float = 70.0
    max_accuracy_meters: float = 200.0


@dataclass(frozen=True, slots=True)
class PingCheck:
    """For each ping of a driver its fault or None, and the newest accepted ping."""

    faults: list[Fault | None]
    newest: Ping | None

    @property
    def proves_presence(self) -> bool:
        return any(fault not in UNTIMELY for fault in self.faults)


def check_pings(pings: Sequence[Ping], last: Ping | None, *, now: datetime, rules: PingRules) -> PingCheck:
    """Check one driver's pings in the order of their times, after `last`, the last accepted ping."""
    faults: list[Fault | None] = [None] * len(pings)
    newest: Ping | None = None
    for index in sorted(range(len(pings)), key=lambda index: pings[index].at):
        ping = pings[index]
        fault = faults[index] = check_ping(ping, newest or last, now=now, rules=rules)
        if fault is None:
            newest = ping
    return PingCheck(faults, newest)


def check_ping(ping: Ping, last: Ping | None, *, now: datetime, rules: PingRules) -> Fault | None:
    """Return the ping's fault, or None if it is accepted. A repeat of `last` is accepted."""
    if now - ping.at > rules.max_age:
        return "stale"
    if ping.at - now > rules.max_ahead:
        return "future_dated"
    if ping.accuracy_meters is not None and ping.accuracy_meters > rules.max_accuracy_meters:
        return "imprecise"
    if last is None or now - last.at > rules.max_age:
        return None  # After a long silence the driver may be anywhere.
    if ping.at < last.at or (ping.at == last.at and ping.place != last.place):
        return "out_of_order"
    return "impossible" if _is_too_fast(last, ping, rules) else None


def _is_too_fast(last: Ping, ping: Ping, rules: PingRules) -> bool:
    seconds = (ping.at - last.at).total_seconds()
    reach_meters = rules.max_speed_mps * seconds + last.error_meters + ping.error_meters
    return straight_line_meters(last.place, ping.place) > reach_meters
