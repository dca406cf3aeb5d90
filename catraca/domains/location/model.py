"""Drivers and pings as values, and the rules by which a ping is accepted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NewType
from uuid import UUID

import msgspec

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
# A little more than the true length.
MAX_METERS_A_DEGREE: Final = 111_200.0


class Ping(msgspec.Struct, frozen=True, gc=False):
    """A driver's position at a time, as the driver's phone sent it.

    A struct, because there are many: it is made quickly, and the garbage collector does not visit it.
    """

    place: Place
    # In UTC: Python compares times of one zone ten times as fast.
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
class SentPings:
    """Pings of any drivers: `pings[n]` is of driver `driver_ids[n]`."""

    driver_ids: Sequence[DriverId]
    pings: Sequence[Ping]

    def only(self, numbers: Sequence[int]) -> "SentPings":
        return SentPings([self.driver_ids[n] for n in numbers], [self.pings[n] for n in numbers])


@dataclass(frozen=True, slots=True)
class PingCheck:
    """The fault of each ping or None, each driver's newest accepted ping, and the drivers proved present."""

    faults: list[Fault | None]
    newest: dict[DriverId, Ping]
    present: set[DriverId]


def check_pings(
    sent: SentPings, last: Mapping[DriverId, Ping], *, now: datetime, rules: PingRules
) -> PingCheck:
    """Check pings in the order of their times, after `last`, each driver's last accepted ping."""
    driver_ids, pings = sent.driver_ids, sent.pings
    faults: list[Fault | None] = [None] * len(pings)
    newest: dict[DriverId, Ping] = {}
    present: set[DriverId] = set()
    times = [ping.at for ping in pings]
    for number in sorted(range(len(pings)), key=times.__getitem__):
        driver_id, ping = driver_ids[number], pings[number]
        fault = check_ping(ping, newest.get(driver_id) or last.get(driver_id), now=now, rules=rules)
        faults[number] = fault
        if fault is None:
            newest[driver_id] = ping
        if fault not in UNTIMELY:
            present.add(driver_id)
    return PingCheck(faults, newest, present)


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
    # The way along a meridian and a parallel is no shorter than the straight line, and is computed quickly.
    degrees = abs(ping.place.lat - last.place.lat) + abs(ping.place.lon - last.place.lon)
    if degrees * MAX_METERS_A_DEGREE <= reach_meters:
        return False
    return straight_line_meters(last.place, ping.place) > reach_meters
