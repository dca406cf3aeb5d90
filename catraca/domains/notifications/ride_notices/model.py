"""Notifications of events about rides, offers and searches: recipients and texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.notifications.model import MessageContext, NewNotification, NotificationsOf, Texts
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
    RidePaid,
    RidePaymentExpired,
    RideReassigning,
    RideStarted,
    live,
)
from catraca.platform.event import Event
from catraca.platform.texts import distance, money, span

NO_DRIVERS = "no_drivers_available"


@dataclass(frozen=True, slots=True)
class EndedDrive:
    """A driver who no longer drives this passenger's ride."""

    driver_id: UUID
    passenger_id: UUID
    ride_id: UUID


def ended_drive(event: Event) -> EndedDrive | None:
    """Return the drive that this event ends, for the driver; None for any other event."""
    if type(event) not in DRIVE_ENDS:
        return None
    if isinstance(event, RideReassigning):
        return EndedDrive(event.previous_driver_id, event.rider_id, event.ride_id)
    assert isinstance(event, RideCompleted | RideCancelled)
    if event.driver_id is None:
        return None
    return EndedDrive(event.driver_id, event.rider_id, event.ride_id)


def _offered(event_id: UUID, event: CandidateFound, context: MessageContext) -> Iterator[NewNotification]:
    if event.offer_id in context.open_offers:
        yield NewNotification(event.driver_id, event_id, _offer(event, context), offer_id=event.offer_id)


def _offer(event: CandidateFound, context: MessageContext) -> live.OfferNotice:
    language = context.language_of(event.driver_id)
    texts = Texts(language)
    terms: list[str] = []
    if event.estimated_fare_cents is not None:
        terms.append(money(event.estimated_fare_cents, context.currency, language))
    if event.pickup_distance_meters is not None:
        away = distance(event.pickup_distance_meters, language)
        terms.append(texts("offer_distance", distance=away))
    return live.OfferNotice(
        ride_id=event.ride_id,
        offer_id=event.offer_id,
        attempt=event.attempt,
        expires_at=event.expires_at,
        pickup=event.pickup,
        pickup_distance_meters=event.pickup_distance_meters,
        distance_meters=event.distance_meters,
        estimated_fare_cents=event.estimated_fare_cents,
        message=" ".join([texts("offer_made"), " - ".join(terms)]).rstrip(),
    )


def _offer_canceled(
    event_id: UUID, event: OfferCanceled, context: MessageContext
) -> Iterator[NewNotification]:
    notice = live.OfferCanceledNotice(
        ride_id=event.ride_id,
        offer_id=event.offer_id,
        reason=event.reason,
        message=context.texts_for(event.driver_id)(f"offer_gone_{event.reason}"),
    )
    yield NewNotification(event.driver_id, event_id, notice)


def _no_drivers(
    event_id: UUID, event: MatchingTimeout | NoDriversAvailable, context: MessageContext
) -> Iterator[NewNotification]:
    texts = context.texts_for(event.rider_id)
    notice = live.NoDriversNotice(
        ride_id=event.ride_id, title=texts("no_driver_title"), message=texts("no_driver")
    )
    yield NewNotification(event.rider_id, event_id, notice)


def _confirmation_expired(
    event_id: UUID, event: ConfirmationExpired, context: MessageContext
) -> Iterator[NewNotification]:
    notice = live.ConfirmationExpiredNotice(
        confirmation_id=event.confirmation_id,
        expired_at=event.expires_at,
        message=context.texts_for(event.rider_id)("confirmation_over"),
    )
    yield NewNotification(event.rider_id, event_id, notice)


def _matched(event_id: UUID, event: RideMatched, context: MessageContext) -> Iterator[NewNotification]:
    ride, driver = context.rides[RideId(event.ride_id)], context.people.get(UserId(event.driver_id))
    language = context.language_of(event.rider_id)
    texts = Texts(language)
    name = driver.name if driver else None
    accepted = live.AcceptedPassengerNotice(
        ride_id=event.ride_id,
        driver_id=event.driver_id,
        message=texts("accepted_passenger"),
        eta_seconds=event.eta_seconds,
    )
    details = driver.driver if driver else None
    matched = live.MatchedNotice(
        ride_id=event.ride_id,
        driver=live.DriverCard(event.driver_id, name, details and details.vehicle, details and details.plate),
        message=texts("matched", name=name.split()[0]) if name else texts("matched_nameless"),
        eta_seconds=event.eta_seconds,
        eta=None if event.eta_seconds is None else span(event.eta_seconds, language),
    )
    is_driving = ride.is_driven and ride.accepted_driver_id == event.driver_id
    accepted_driver = live.AcceptedDriverNotice(
        ride_id=event.ride_id,
        passenger_id=event.rider_id if is_driving else None,
        pickup_location=live.PickupLocation(ride.pickup_lat, ride.pickup_lon) if is_driving else None,
        message=context.texts_for(event.driver_id)("accepted_driver"),
        eta_seconds=event.eta_seconds,
    )
    yield NewNotification(event.rider_id, event_id, accepted)
    yield NewNotification(event.rider_id, event_id, matched, about_id=event.driver_id)
    yield NewNotification(event.driver_id, event_id, accepted_driver, about_id=event.rider_id)


def _arriving(event_id: UUID, event: RideArriving, context: MessageContext) -> Iterator[NewNotification]:
    message = context.texts_for(event.rider_id)("arriving")
    notice = live.ArrivingNotice(ride_id=event.ride_id, arrived_at=event.arrived_at, message=message)
    yield NewNotification(event.rider_id, event_id, notice)


def _started(event_id: UUID, event: RideStarted, context: MessageContext) -> Iterator[NewNotification]:
    message = context.texts_for(event.rider_id)("started")
    notice = live.StartedNotice(ride_id=event.ride_id, started_at=event.started_at, message=message)
    yield NewNotification(event.rider_id, event_id, notice)


def _reassigning(
    event_id: UUID, event: RideReassigning, context: MessageContext
) -> Iterator[NewNotification]:
    notice = live.ReassigningNotice(
        ride_id=event.ride_id,
        reason=event.reason,
        deadline_at=event.deadline_at,
        message=context.texts_for(event.rider_id)("reassigning"),
    )
    yield NewNotification(event.rider_id, event_id, notice)


def _completed(event_id: UUID, event: RideCompleted, context: MessageContext) -> Iterator[NewNotification]:
    name = "completed_by_operator" if event.completed_by == "operator" else "completed"
    for user_id in (event.rider_id, event.driver_id):
        language = context.language_of(user_id)
        notice = live.CompletedNotice(
            ride_id=event.ride_id,
            fare_cents=event.fare_cents,
            completed_at=event.completed_at,
            message=Texts(language)(name, fare=money(event.fare_cents, context.currency, language)),
        )
        yield NewNotification(user_id, event_id, notice)


def _paid(event_id: UUID, event: RidePaid, context: MessageContext) -> Iterator[NewNotification]:
    for user_id in (event.rider_id, event.driver_id):
        language = context.language_of(user_id)
        notice = live.PaidNotice(
            ride_id=event.ride_id,
            fare_cents=event.fare_cents,
            paid_at=event.paid_at,
            message=Texts(language)("paid", fare=money(event.fare_cents, context.currency, language)),
        )
        yield NewNotification(user_id, event_id, notice)


def _payment_expired(
    event_id: UUID, event: RidePaymentExpired, context: MessageContext
) -> Iterator[NewNotification]:
    for user_id in (event.rider_id, event.driver_id):
        language = context.language_of(user_id)
        fare = money(event.fare_cents, context.currency, language)
        notice = live.PaymentExpiredNotice(
            ride_id=event.ride_id,
            fare_cents=event.fare_cents,
            expired_at=event.expired_at,
            message=Texts(language)("payment_expired", fare=fare),
        )
        yield NewNotification(user_id, event_id, notice)


def _cancelled(event_id: UUID, event: RideCancelled, context: MessageContext) -> Iterator[NewNotification]:
    if event.reason == NO_DRIVERS:
        return
    for user_id, side in ((event.rider_id, "passenger"), (event.driver_id, "driver")):
        if user_id is None:
            continue
        by = "you" if event.cancelled_by == side else event.cancelled_by
        notice = live.CancelledNotice(
            ride_id=event.ride_id,
            cancelled_by=event.cancelled_by,
            reason=event.reason,
            cancelled_at=event.cancelled_at,
            message=context.texts_for(user_id)(f"cancelled_by_{by}"),
        )
        yield NewNotification(user_id, event_id, notice)


DRIVE_ENDS = frozenset({RideReassigning, RideCompleted, RideCancelled})

RIDE_NOTICES: Mapping[type[Event], NotificationsOf] = {
    CandidateFound: _offered,
    OfferCanceled: _offer_canceled,
    MatchingTimeout: _no_drivers,
    NoDriversAvailable: _no_drivers,
    ConfirmationExpired: _confirmation_expired,
    RideMatched: _matched,
    RideArriving: _arriving,
    RideStarted: _started,
    RideReassigning: _reassigning,
    RideCompleted: _completed,
    RidePaid: _paid,
    RidePaymentExpired: _payment_expired,
    RideCancelled: _cancelled,
}
