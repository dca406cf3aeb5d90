"""Events of rides and searches, by default of one place and time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from catraca.events import MatchingTimeout, NoDriversAvailable, RideMatched, RideReassigning, RideRequested
from catraca.events.rides import Point
from catraca.platform.bus import Message
from catraca.platform.event import Event, encode, key_of

NOON = datetime(2031, 5, 30, 12, tzinfo=UTC)
# Within one cell; the next is in another cell of the same region, the last in another region.
HERE, NEARBY, FAR = Point(-23.55, -46.63), Point(-23.6, -46.63), Point(-24.9, -46.63)
SOON = timedelta(seconds=20)


def requested(*, pickup: Point = HERE, at: datetime = NOON, ride_id: UUID | None = None) -> RideRequested:
    return RideRequested(
        ride_id=ride_id or uuid4(), round=1, rider_id=uuid4(), pickup=pickup, deadline_at=at, timestamp=at
    )


def reassigning(*, pickup: Point = HERE, at: datetime = NOON) -> RideReassigning:
    return RideReassigning(
        ride_id=uuid4(),
        round=2,
        rider_id=uuid4(),
        previous_driver_id=uuid4(),
        reason="vehicle_problem",
        pickup=pickup,
        deadline_at=at,
        timestamp=at,
    )


def matched(
    *, pickup: Point = HERE, at: datetime = NOON, waited: timedelta = SOON, ride_id: UUID | None = None
) -> RideMatched:
    return RideMatched(
        ride_id=ride_id or uuid4(),
        round=1,
        rider_id=uuid4(),
        driver_id=uuid4(),
        pickup=pickup,
        started_at=at - waited,
        matched_at=at,
        timestamp=at + timedelta(seconds=1),
    )


def failed(
    *,
    pickup: Point = HERE,
    at: datetime = NOON,
    kind: type[MatchingTimeout] | type[NoDriversAvailable] = NoDriversAvailable,
) -> MatchingTimeout | NoDriversAvailable:
    return kind(
        ride_id=uuid4(),
        round=1,
        rider_id=uuid4(),
        pickup=pickup,
        started_at=at - timedelta(minutes=5),
        timeout_at=at,
        total_attempts=0,
        searches=7,
        search_radius_km=15,
        reason="no_drivers_in_area",
        timestamp=at + timedelta(seconds=1),
    )


def message_of(event: Event) -> Message:
    kind = type(event)
    return Message(id=uuid4(), exchange=kind.exchange, key=key_of(kind), body=encode(event))
