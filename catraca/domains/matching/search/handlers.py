"""Reacts to events about rides, offers and drivers. An event only starts a step, which reads the state."""

from collections.abc import Sequence
from datetime import datetime

from prometheus_client import Histogram

from catraca.domains import location, people, rides
from catraca.domains.matching.outcome.service import Match, confirm_matches, release_drivers
from catraca.domains.matching.search.service import Matcher, StepResult
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
from catraca.platform.bus import Arrival, EventHandlers, HandleAlone, Message
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.geo import Place

LAG_SECONDS = Histogram(
    "catraca_matching_step_lag_seconds",
    "Time from an event to the end of the step it started.",
    ["queue"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
)

starts = EventHandlers[Matcher]("matching_service_queue")
retries = EventHandlers[Matcher]("matching_retry_queue")
ends = EventHandlers[Matcher]("matching_timeout_queue")
availability = EventHandlers[Matcher]("matching_availability_queue")
ride_updates = EventHandlers[Matcher]("ride_updates_queue")
HANDLERS = (starts, retries, ends, availability, ride_updates)


@starts.together(RideRequested, RideReassigning)
async def start_searches(
    db: Db, arrivals: Sequence[Arrival[RideRequested | RideReassigning]], matcher: Matcher
) -> None:
    await _advance_all(db, arrivals, matcher)
    for event, _ in arrivals:
        _observe_lag(starts, event.timestamp)


@retries(DriverRejected, DriverTimeout)
async def ask_next_driver(
    db: Db, event: DriverRejected | DriverTimeout, message: Message, matcher: Matcher
) -> None:
    await location.release_drivers(matcher.redis, [event.driver_id], ride_id=event.ride_id)
    await matcher.advance_search(db, event.ride_id)
    await matcher.wake_searches_near(db, [event.driver_id], but=event.ride_id)
    _observe_lag(retries, event.timestamp)


@ends(MatchingTimeout, NoDriversAvailable)
async def release(
    db: Db, event: MatchingTimeout | NoDriversAvailable, message: Message, matcher: Matcher
) -> None:
    locked = await rides.lock_for_search(db, rides.RideId(event.ride_id))
    if locked is not None:
        await release_drivers(matcher.redis, locked)


@availability(DriverOffline)
async def withdraw_offers(db: Db, event: DriverOffline, message: Message, matcher: Matcher) -> None:
    """Keeps the offers of a driver who is online again by now."""
    if not await location.is_online(db, event.driver_id):
        await rides.withdraw_offers(db, people.UserId(event.driver_id))


@availability(DriverOnline)
async def wake_near_online_driver(db: Db, event: DriverOnline, message: Message, matcher: Matcher) -> None:
    if event.lat is None or event.lng is None:
        await matcher.wake_searches_near(db, [event.driver_id])
    else:
        await matcher.wake_searches(db, Place(event.lat, event.lng))


@availability(DriverEnteredCommunity)
async def wake_in_community(
    db: Db, event: DriverEnteredCommunity, message: Message, matcher: Matcher
) -> None:
    await matcher.wake_searches(db, Place(event.lat, event.lng))


@availability(DriverLeftCommunity)
async def ignore(db: Db, event: DriverLeftCommunity, message: Message, matcher: Matcher) -> None:
    """An open offer stays valid, and no search has a new candidate."""


@availability(DriverIdle)
async def wake_near_idle_driver(db: Db, event: DriverIdle, message: Message, matcher: Matcher) -> None:
    await matcher.wake_searches_near(db, [event.driver_id])


@ride_updates.together(DriverAccepted)
async def confirm(db: Db, arrivals: Sequence[Arrival[DriverAccepted]], matcher: Matcher) -> None:
    results = {one.locked.ride.id: one for one in await _advance_all(db, arrivals, matcher)}
    matches = [
        Match(event, result.locked, result.started_at, message.headers.trace)
        for event, message in arrivals
        if (result := results.get(rides.RideId(event.ride_id))) is not None
    ]
    released = await confirm_matches(db, matcher.redis, matches)
    await matcher.wake_searches_near(db, *released)
    for event, _ in arrivals:
        _observe_lag(ride_updates, event.timestamp)


@ride_updates(RideCompleted)
async def release_driver(db: Db, event: RideCompleted, message: Message, matcher: Matcher) -> None:
    await location.release_drivers(matcher.redis, [event.driver_id], ride_id=event.ride_id)
    await matcher.wake_searches_near(db, [event.driver_id])


@ride_updates(RideCancelled)
async def stop_search(db: Db, event: RideCancelled, message: Message, matcher: Matcher) -> None:
    result = await matcher.advance_search(db, event.ride_id)
    if result is not None:
        released = await release_drivers(matcher.redis, result.locked)
        driver = [] if event.driver_id is None else [event.driver_id]
        await matcher.wake_searches_near(db, [*driver, *released])
    _observe_lag(ride_updates, event.timestamp)


@ride_updates(RideReassigning)
async def release_previous_driver(db: Db, event: RideReassigning, message: Message, matcher: Matcher) -> None:
    await location.release_drivers(matcher.redis, [event.previous_driver_id], ride_id=event.ride_id)
    await matcher.wake_searches_near(db, [event.previous_driver_id], but=event.ride_id)


async def _advance_all(
    db: Db,
    arrivals: Sequence[tuple[RideRequested | RideReassigning | DriverAccepted, Message]],
    matcher: Matcher,
) -> list[StepResult]:
    """Take the next step of each event's ride."""
    traces = {event.ride_id: message.headers.trace for event, message in arrivals}
    try:
        return await matcher.advance_searches(db, traces)
    except rides.RidesCollide as collision:
        colliding = {message.id for event, message in arrivals if event.ride_id in collision.ride_ids}
        raise HandleAlone(colliding) from collision


def _observe_lag(handles: EventHandlers[Matcher], event_at: datetime) -> None:
    LAG_SECONDS.labels(handles.queue).observe(max(0.0, (now() - event_at).total_seconds()))
