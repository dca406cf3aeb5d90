"""What rides and searches say to whom: pure, in the reader's own words."""

from collections.abc import Iterator
from uuid import UUID

from catraca.domains.notifications.model.values import Happened, Telling, Words, World
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.events import (
    CandidateFound,
    ConfirmationExpired,
    MatchingTimeout,
    NoDriversAvailable,
    OfferCanceled,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RideReassigning,
    RideStarted,
    live,
)
from catraca.platform.texts import distance, money, span

NO_DRIVERS = "no_drivers_available"


def ride_tellings(happened: Happened, world: World) -> Iterator[Telling]:
    """None of any other event."""
    event_id, event = happened
    match event:
        case CandidateFound():
            if event.offer_id in world.open_offers:
                yield Telling(event.driver_id, event_id, _offer_made(event, world), offer_id=event.offer_id)
        case OfferCanceled():
            say = Words(world.language_of(event.driver_id))
            gone = live.OfferGone(
                ride_id=event.ride_id,
                offer_id=event.offer_id,
                reason=event.reason,
                message=say(f"offer_gone_{event.reason}"),
            )
            yield Telling(event.driver_id, event_id, gone)
        case MatchingTimeout() | NoDriversAvailable():
            say = Words(world.language_of(event.rider_id))
            nobody = live.NoDriver(
                ride_id=event.ride_id, title=say("no_driver_title"), message=say("no_driver")
            )
            yield Telling(event.rider_id, event_id, nobody)
        case ConfirmationExpired():
            over = live.ConfirmationOver(
                confirmation_id=event.confirmation_id,
                expired_at=event.expires_at,
                message=Words(world.language_of(event.rider_id))("confirmation_over"),
            )
            yield Telling(event.rider_id, event_id, over)
        case RideMatched():
            yield from _matched(event_id, event, world)
        case RideArriving() | RideStarted() | RideReassigning():
            yield Telling(event.rider_id, event_id, _progress(event, world))
        case RideCompleted():
            for user_id in (event.rider_id, event.driver_id):
                yield Telling(user_id, event_id, _done(event, user_id, world))
        case RideCancelled() if event.reason != NO_DRIVERS:
            for user_id in (event.rider_id, event.driver_id):
                if user_id is not None:
                    yield Telling(user_id, event_id, _off(event, user_id, world))
        case _:
            return


def _offer_made(event: CandidateFound, world: World) -> live.OfferMade:
    language = world.language_of(event.driver_id)
    say = Words(language)
    terms: list[str] = []
    if event.estimated_fare_cents is not None:
        terms.append(money(event.estimated_fare_cents, world.currency, language))
    if event.pickup_distance_meters is not None:
        away = distance(event.pickup_distance_meters, language)
        terms.append(say("offer_distance", distance=away))
    return live.OfferMade(
        ride_id=event.ride_id,
        offer_id=event.offer_id,
        attempt=event.attempt,
        expires_at=event.expires_at,
        pickup=event.pickup,
        pickup_distance_meters=event.pickup_distance_meters,
        distance_meters=event.distance_meters,
        estimated_fare_cents=event.estimated_fare_cents,
        message=" ".join([say("offer_made"), " - ".join(terms)]).rstrip(),
    )


def _matched(event_id: UUID, event: RideMatched, world: World) -> Iterator[Telling]:
    ride, driver = world.rides[RideId(event.ride_id)], world.people.get(UserId(event.driver_id))
    language = world.language_of(event.rider_id)
    say = Words(language)
    name = driver.name if driver else None
    accepted = live.AcceptedForPassenger(
        ride_id=event.ride_id,
        driver_id=event.driver_id,
        message=say("accepted_passenger"),
        eta_seconds=event.eta_seconds,
    )
    details = driver.driver if driver else None
    coming = live.DriverOnTheWay(
        ride_id=event.ride_id,
        driver=live.DriverCard(event.driver_id, name, details and details.vehicle, details and details.plate),
        message=say("matched", name=first_name(name)) if name else say("matched_nameless"),
        eta_seconds=event.eta_seconds,
        eta=None if event.eta_seconds is None else span(event.eta_seconds, language),
    )
    taken = live.AcceptedForDriver(
        ride_id=event.ride_id,
        passenger_id=event.rider_id,
        pickup_location=live.PickupLocation(ride.pickup_lat, ride.pickup_lon),
        message=Words(world.language_of(event.driver_id))("accepted_driver"),
        eta_seconds=event.eta_seconds,
    )
    yield Telling(event.rider_id, event_id, accepted)
    yield Telling(event.rider_id, event_id, coming, about_id=event.driver_id)
    yield Telling(event.driver_id, event_id, taken)


def _progress(event: RideArriving | RideStarted | RideReassigning, world: World) -> live.Notice:
    say = Words(world.language_of(event.rider_id))
    if isinstance(event, RideArriving):
        return live.DriverThere(ride_id=event.ride_id, arrived_at=event.arrived_at, message=say("arriving"))
    if isinstance(event, RideStarted):
        return live.RideBegun(ride_id=event.ride_id, started_at=event.started_at, message=say("started"))
    return live.LookingAgain(
        ride_id=event.ride_id,
        reason=event.reason,
        deadline_at=event.deadline_at,
        message=say("reassigning"),
    )


def _done(event: RideCompleted, user_id: UUID, world: World) -> live.RideDone:
    language = world.language_of(user_id)
    return live.RideDone(
        ride_id=event.ride_id,
        fare_cents=event.fare_cents,
        completed_at=event.completed_at,
        message=Words(language)("completed", fare=money(event.fare_cents, world.currency, language)),
    )


def _off(event: RideCancelled, user_id: UUID, world: World) -> live.RideOff:
    say = Words(world.language_of(user_id))
    own = event.cancelled_by == ("passenger" if user_id == event.rider_id else "driver")
    return live.RideOff(
        ride_id=event.ride_id,
        cancelled_by=event.cancelled_by,
        reason=event.reason,
        cancelled_at=event.cancelled_at,
        message=say("cancelled_by_you" if own else f"cancelled_by_{event.cancelled_by}"),
    )


def first_name(name: str) -> str:
    return name.split()[0]
