"""Reacts to rides, offers and drivers. Each says that something happened; the step looks how things stand."""

from datetime import datetime
from uuid import UUID

from catraca.domains import location, people, rides
from catraca.domains.matching.service import figures
from catraca.domains.matching.service.advancing import Matcher
from catraca.domains.matching.service.settling import let_go_of_all, settle_match
from catraca.domains.matching.service.waking import wake_around, wake_around_drivers
from catraca.events import (
    DriverAccepted,
    DriverEnteredCommunity,
    DriverIdle,
    DriverLeftCommunity,
    DriverOffline,
    DriverOnline,
    DriverRejected,
    DriverTimeout,
    MatchingTimeout,
    NoDriversAvailable,
    RideCancelled,
    RideCompleted,
    RideReassigning,
    RideRequested,
)
from catraca.platform.bus import Message, QueueHandlers, handlers_for
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.geo import Place


def matching_handlers(matcher: Matcher) -> tuple[QueueHandlers, ...]:
    """The handlers of every queue that moves a search."""
    return (
        _starting(matcher),
        _retrying(matcher),
        _ending(matcher),
        _availability(matcher),
        _ride_updates(matcher),
    )


def _starting(matcher: Matcher) -> QueueHandlers:
    handles = handlers_for("matching_service_queue")

    @handles(RideRequested)
    async def start(db: Db, event: RideRequested, message: Message) -> None:
        await matcher.advance(db, event.ride_id)
        _measure(handles, event.timestamp)

    @handles(RideReassigning)
    async def start_again(db: Db, event: RideReassigning, message: Message) -> None:
        await matcher.advance(db, event.ride_id)
        _measure(handles, event.timestamp)

    return handles


def _retrying(matcher: Matcher) -> QueueHandlers:
    handles = handlers_for("matching_retry_queue")

    async def turn_to_next(db: Db, event: DriverRejected | DriverTimeout, message: Message) -> None:
        """The driver is free for others, and somebody else may be asked."""
        await location.let_go(matcher.redis, [event.driver_id], ride_id=event.ride_id)
        await matcher.advance(db, event.ride_id)
        await _wake_around(db, matcher, event.driver_id, but=event.ride_id)
        _measure(handles, event.timestamp)

    handles(DriverRejected)(turn_to_next)
    handles(DriverTimeout)(turn_to_next)
    return handles


def _ending(matcher: Matcher) -> QueueHandlers:
    handles = handlers_for("matching_timeout_queue")

    async def let_go(db: Db, event: MatchingTimeout | NoDriversAvailable, message: Message) -> None:
        held = await rides.hold_ride(db, rides.RideId(event.ride_id))
        if held is not None:
            await let_go_of_all(matcher.redis, held)

    handles(MatchingTimeout)(let_go)
    handles(NoDriversAvailable)(let_go)
    return handles


def _availability(matcher: Matcher) -> QueueHandlers:
    handles = handlers_for("matching_availability_queue")

    @handles(DriverOffline)
    async def withdraw_offers(db: Db, event: DriverOffline, message: Message) -> None:
        """Nobody waits for the answer of a driver who is gone; who is back by now may well answer."""
        if not await location.online_among(db, [event.driver_id]):
            await rides.withdraw_offers(db, people.UserId(event.driver_id))

    @handles(DriverOnline)
    async def wake(db: Db, event: DriverOnline, message: Message) -> None:
        if event.lat is None or event.lng is None:
            await _wake_around(db, matcher, event.driver_id)
        else:
            await wake_around(db, Place(event.lat, event.lng), rules=matcher.terms.rules)

    @handles(DriverEnteredCommunity)
    async def wake_at_home(db: Db, event: DriverEnteredCommunity, message: Message) -> None:
        """Whom a search has passed by for being from elsewhere may be asked from now on."""
        await wake_around(db, Place(event.lat, event.lng), rules=matcher.terms.rules)

    @handles(DriverLeftCommunity)
    async def leave_be(db: Db, event: DriverLeftCommunity, message: Message) -> None:
        """Whoever is being asked may still say yes; nobody else is asked sooner for it."""

    @handles(DriverIdle)
    async def wake_once_more(db: Db, event: DriverIdle, message: Message) -> None:
        await _wake_around(db, matcher, event.driver_id)

    return handles


def _ride_updates(matcher: Matcher) -> QueueHandlers:
    handles = handlers_for("ride_updates_queue")

    @handles(DriverAccepted)
    async def settle(db: Db, event: DriverAccepted, message: Message) -> None:
        step = await matcher.advance(db, event.ride_id)
        if step is not None:
            freed = await settle_match(db, matcher.redis, event, step)
            await _wake_around(db, matcher, *freed)
        _measure(handles, event.timestamp)

    @handles(RideCompleted)
    async def free_driver(db: Db, event: RideCompleted, message: Message) -> None:
        await location.let_go(matcher.redis, [event.driver_id], ride_id=event.ride_id)
        await _wake_around(db, matcher, event.driver_id)

    @handles(RideCancelled)
    async def stop(db: Db, event: RideCancelled, message: Message) -> None:
        step = await matcher.advance(db, event.ride_id)
        if step is not None:
            freed = await let_go_of_all(matcher.redis, step.held)
            await _wake_around(db, matcher, *([] if event.driver_id is None else [event.driver_id]), *freed)
        _measure(handles, event.timestamp)

    @handles(RideReassigning)
    async def free_who_gave_up(db: Db, event: RideReassigning, message: Message) -> None:
        await location.let_go(matcher.redis, [event.previous_driver_id], ride_id=event.ride_id)
        await _wake_around(db, matcher, event.previous_driver_id, but=event.ride_id)

    return handles


async def _wake_around(db: Db, matcher: Matcher, *driver_ids: UUID, but: UUID | None = None) -> None:
    """These are free from now on, for others than the ride they come from."""
    await wake_around_drivers(db, matcher.redis, driver_ids, rules=matcher.terms.rules, but=but)


def _measure(handles: QueueHandlers, told_at: datetime) -> None:
    figures.LAG.labels(handles.queue).observe(max(0.0, (now() - told_at).total_seconds()))
