"""Which exchange carries which keys, which queue gets them, and which role consumes it.

A queue marked `planned` is part of the plan and not of the running system: its consumer is not built yet, so
it is neither made nor filled. Start-up refuses a topology that would lose news (`platform/bus/topology.py`).
"""

from dataclasses import dataclass

from catraca.platform.bus.topology import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_QUEUE,
    Queue,
    RetryQueue,
    Topology,
    delay_name,
)

SIGN_UP_EXCHANGE = "raffle_exchange"
SIGN_UP_QUEUE = "raffle_queue"

EXCHANGES = {
    "rides.events": (
        "ride.requested",
        "ride.confirmation_expired",
        "ride.matched",
        "ride.accepted",
        "ride.arriving",
        "ride.started",
        "ride.completed",
        "ride.cancelled",
        "ride.reassigning",
        "ride.paid",
        "ride.payment_expired",
    ),
    "matching.events": (
        "matching.candidate_found",
        "matching.offer_sent",
        "matching.driver_accepted",
        "matching.driver_rejected",
        "matching.driver_timeout",
        "matching.retry",
        "matching.timeout",
        "matching.no_drivers_available",
        "offer.canceled",
    ),
    "location.events": (
        "location.driver.updated",
        "location.driver.online",
        "location.driver.offline",
        "location.driver.idle",
        "location.driver.entered_community",
        "location.driver.left_community",
    ),
    "users.events": ("user.created", "user.rejected"),
    "appointments.events": (
        "appointment.booked",
        "appointment.rescheduled",
        "appointment.confirmed",
        "appointment.canceled",
        "appointment.no_show",
        "appointment.reminder_due",
        "appointment.slot_offered",
    ),
    "analytics.events": ("analytics.matches_failing",),
    "notifications.events": ("notification.push_due",),
    SIGN_UP_EXCHANGE: (SIGN_UP_QUEUE,),
    "raffle_dlx": (),
    DEAD_LETTER_EXCHANGE: (),
}

DISPATCHER = (
    Queue(
        name="matching_service_queue",
        binds=("ride.requested", "ride.reassigning"),
        role="dispatcher",
        does="Starts a matching.",
    ),
    Queue(
        name="matching_retry_queue",
        binds=("matching.driver_rejected", "matching.driver_timeout"),
        role="dispatcher",
        does="Turns to the next candidate.",
    ),
    Queue(
        name="matching_timeout_queue",
        binds=("matching.timeout", "matching.no_drivers_available"),
        role="dispatcher",
        does="Releases what the ended matching held.",
    ),
    Queue(
        name="matching_availability_queue",
        binds=(
            "location.driver.online",
            "location.driver.offline",
            "location.driver.idle",
            "location.driver.entered_community",
            "location.driver.left_community",
        ),
        role="dispatcher",
        does="Wakes waiting searches, withdraws an offline driver's offer.",
    ),
    Queue(
        name="ride_updates_queue",
        binds=("matching.driver_accepted", "ride.completed", "ride.cancelled", "ride.reassigning"),
        role="dispatcher",
        does="Turns the lease into the ride and tells of the match; releases at the end.",
    ),
)

NOTIFIER = (
    Queue(
        name="notification_rides_queue",
        # All of a ride's, but for what only the machinery needs to know.
        binds=tuple(
            key for key in EXCHANGES["rides.events"] if key not in ("ride.requested", "ride.accepted")
        ),
        role="notifier",
        does="Tells passenger and driver.",
        batch=200,
        prefetch=400,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="notification_matching_queue",
        binds=(
            "matching.candidate_found",
            "matching.timeout",
            "matching.no_drivers_available",
            "offer.canceled",
        ),
        role="notifier",
        does="Tells of offers, lost offers and that there is no driver.",
        batch=200,
        prefetch=400,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="notification_appointments_queue",
        binds=("appointment.*",),
        role="notifier",
        does="Tells clients and workers of their appointments, and reminds them.",
        batch=200,
        prefetch=400,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="notification_push_queue",
        binds=("notification.push_due",),
        role="notifier",
        does="Wakes devices that are not connected, by web push.",
        # Each holds a connection while a push service is asked.
        concurrency=2,
    ),
    Queue(
        name="tracking_realtime_queue",
        binds=("location.driver.updated",),
        role="notifier",
        does="Shows positions; old ones are dropped.",
        # One query for many; a moment's wait fills a batch with what several servers tell at a time.
        batch=500,
        fill_seconds=0.05,
        prefetch=1000,
        # Side by side, an older position could overtake a newer one.
        concurrency=1,
        transient_seconds=5,
        max_length=10_000,
        dead_letters_to=None,
    ),
)

HOUSEKEEPER = (
    Queue(
        name="billing_events_queue",
        binds=("ride.started", "ride.completed", "ride.cancelled"),
        role="housekeeper",
        does="Charges.",
        planned=True,
    ),
    Queue(
        name="analytics_events_queue",
        binds=("ride.*",),
        role="housekeeper",
        does="Counts and measures demand.",
        batch=100,
        prefetch=400,
        # Side by side they would wait for each other: events of one time and place change the same row.
        concurrency=1,
    ),
    Queue(
        name="analytics_matching_queue",
        binds=("matching.*",),
        role="housekeeper",
        does="Counts, and warns when matches fail.",
        batch=100,
        prefetch=400,
        # Side by side they would wait for each other: events of one time and place change the same row.
        concurrency=1,
    ),
    Queue(
        name="audit_log_queue",
        binds=("ride.*", "matching.*", "offer.*", "user.*", "appointment.*", "analytics.*"),
        role="housekeeper",
        does="Keeps an append-only log of what happened to what.",
        batch=100,
        prefetch=400,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="raffle_dlq",
        binds=("raffle_dlx",),
        role="housekeeper",
        does="Stores sign-ups that could not be taken, for review.",
        batch=50,
        prefetch=100,
        concurrency=1,
        remembers=False,
        dead_letters_to=None,
    ),
    Queue(
        name=DEAD_LETTER_QUEUE,
        binds=(DEAD_LETTER_EXCHANGE,),
        role="housekeeper",
        does="Stores each message that could not be handled, for review.",
        batch=50,
        prefetch=100,
        concurrency=1,
        # One message may die in several queues, and again after a replay: each time is news.
        remembers=False,
        dead_letters_to=None,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUpFlow:
    """How sign-ups flow, as the settings of the same names say."""

    retry_ttl_ms: int = 10_000
    max_retries: int = 3
    batch_size: int = 1000
    batch_timeout_ms: int = 1000
    proc_concurrency: int = 8
    batch_concurrency: int = 2


def sign_up_queue(flow: SignUpFlow) -> Queue:
    delay_seconds = flow.retry_ttl_ms / 1000
    return Queue(
        name=SIGN_UP_QUEUE,
        binds=(SIGN_UP_QUEUE,),
        role="ingester",
        does="Writes sign-ups, in batches.",
        batch=flow.batch_size,
        fill_seconds=flow.batch_timeout_ms / 1000,
        processors=flow.proc_concurrency,
        concurrency=flow.batch_concurrency,
        # What is being written, and a batch more that fills meanwhile.
        prefetch=flow.batch_size * (flow.batch_concurrency + 1),
        # Each sign-up has its own row that says whether it was handled.
        remembers=False,
        dead_letters_to="raffle_dlx",
        retries_in=RetryQueue(
            name=f"raffle_retry_{delay_name(delay_seconds)}",
            exchange="raffle_retry_exchange",
            delay_seconds=delay_seconds,
            times=flow.max_retries,
            returns_by=(SIGN_UP_EXCHANGE, SIGN_UP_QUEUE),
        ),
    )


def welcome_queue(*, writes: bool) -> Queue:
    """Letters go one by one, each holding a connection meanwhile; where nobody is written to, it is quick."""
    return Queue(
        name="notification_users_queue",
        binds=("user.created",),
        role="notifier",
        does="Welcomes whoever signed up, by mail.",
        concurrency=2,
        batch=1 if writes else 100,
        prefetch=16 if writes else 400,
    )


def make_topology(flow: SignUpFlow, *, writes_letters: bool = True) -> Topology:
    welcome = welcome_queue(writes=writes_letters)
    return Topology(
        exchanges=EXCHANGES, queues=(*DISPATCHER, *NOTIFIER, welcome, *HOUSEKEEPER, sign_up_queue(flow))
    )


TOPOLOGY = make_topology(SignUpFlow())
