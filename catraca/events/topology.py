"""Which exchange carries which keys, which queue gets them, and which role consumes it.

Start-up refuses a topology that would lose messages (`platform/bus/topology.py`).
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
SIGN_UP_DEAD_LETTER_EXCHANGE = "raffle_dlx"
SIGN_UP_DEAD_LETTER_QUEUE = "raffle_dlq"

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
        "ride.flagged",
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
    "users.events": ("user.created", "user.rejected", "user.email_change_requested"),
    "appointments.events": (
        "appointment.booked",
        "appointment.rescheduled",
        "appointment.confirmed",
        "appointment.canceled",
        "appointment.no_show",
        "appointment.reminder_due",
        "appointment.slot_offered",
    ),
    "billing.events": ("charge.opened", "charge.paid", "charge.expired"),
    "analytics.events": ("analytics.matches_failing",),
    "notifications.events": ("notification.push_due",),
    SIGN_UP_EXCHANGE: (SIGN_UP_QUEUE,),
    SIGN_UP_DEAD_LETTER_EXCHANGE: (SIGN_UP_DEAD_LETTER_QUEUE,),
    DEAD_LETTER_EXCHANGE: (),
}
DIRECT = frozenset({SIGN_UP_EXCHANGE, SIGN_UP_DEAD_LETTER_EXCHANGE})

DISPATCHER = (
    Queue(
        name="matching_service_queue",
        binds=("ride.requested", "ride.reassigning"),
        role="dispatcher",
        does="Starts a matching.",
        batch=8,
        prefetch=32,
        plans_once=True,
    ),
    Queue(
        name="matching_retry_queue",
        binds=("matching.driver_rejected", "matching.driver_timeout"),
        role="dispatcher",
        does="Offers the ride to the next candidate.",
    ),
    Queue(
        name="matching_timeout_queue",
        binds=("matching.timeout", "matching.no_drivers_available"),
        role="dispatcher",
        does="Releases the drivers of an ended matching.",
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
        does="Confirms a match and releases the other drivers; releases the driver when the ride ends.",
        batch=8,
        prefetch=32,
        plans_once=True,
    ),
)

NOTIFIER = (
    Queue(
        name="notification_rides_queue",
        # All events of a ride, except those that only the dispatcher or the operators need.
        binds=tuple(
            key
            for key in EXCHANGES["rides.events"]
            if key not in ("ride.requested", "ride.accepted", "ride.flagged")
        ),
        role="notifier",
        does="Notifies passenger and driver.",
        batch=500,
        prefetch=1000,
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
        does="Notifies of offers, canceled offers and of a search without a driver.",
        batch=500,
        prefetch=1000,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="notification_appointments_queue",
        binds=("appointment.*",),
        role="notifier",
        does="Notifies clients and workers of their appointments, and reminds them.",
        batch=500,
        prefetch=1000,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name="notification_push_queue",
        binds=("notification.push_due",),
        role="notifier",
        does="Wakes devices that are not connected, by web push.",
        # Sent while a message is prepared, so many at a time; the transactions after that are short.
        processors=32,
        concurrency=32,
        prefetch=64,
    ),
    Queue(
        name="tracking_realtime_queue",
        binds=("location.driver.updated",),
        role="notifier",
        does="Sends positions to passengers; old ones are dropped.",
        # One query for many positions; a short wait fills a batch with those of several servers.
        batch=500,
        fill_seconds=0.05,
        prefetch=1000,
        # In parallel, an older position could overtake a newer one.
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
        does="Opens the charge of a completed ride.",
    ),
    Queue(
        name="analytics_events_queue",
        binds=("ride.*",),
        role="housekeeper",
        does="Counts ride events and measures demand.",
        batch=100,
        prefetch=400,
        # In parallel they would wait for each other: events of one time and place change the same row.
        concurrency=1,
    ),
    Queue(
        name="analytics_matching_queue",
        binds=("matching.*",),
        role="housekeeper",
        does="Counts search events, and warns when matches fail.",
        batch=100,
        prefetch=400,
        # In parallel they would wait for each other: events of one time and place change the same row.
        concurrency=1,
    ),
    Queue(
        name="audit_log_queue",
        binds=("ride.*", "matching.*", "offer.*", "user.*", "appointment.*", "charge.*", "analytics.*"),
        role="housekeeper",
        does="Writes each event to the append-only audit log.",
        batch=100,
        prefetch=400,
        concurrency=1,
        single_active=True,
    ),
    Queue(
        name=SIGN_UP_DEAD_LETTER_QUEUE,
        binds=(SIGN_UP_DEAD_LETTER_QUEUE,),
        role="housekeeper",
        does="Stores sign-ups that could not be handled, for review.",
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
        # A message may fail in several queues, and again after a replay; each time counts.
        remembers=False,
        dead_letters_to=None,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUpFlow:
    """How sign-ups are consumed; see the settings of the same names."""

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
        # The batches being written, and one that fills meanwhile.
        prefetch=flow.batch_size * (flow.batch_concurrency + 1),
        # Each handled sign-up has its own row, so an inbox is not needed.
        remembers=False,
        dead_letters_to=SIGN_UP_DEAD_LETTER_EXCHANGE,
        dead_letter_key=SIGN_UP_DEAD_LETTER_QUEUE,
        retries_in=RetryQueue(
            name=f"raffle_retry_{delay_name(delay_seconds)}",
            exchange="raffle_retry_exchange",
            delay_seconds=delay_seconds,
            times=flow.max_retries,
            returns_by=(SIGN_UP_EXCHANGE, SIGN_UP_QUEUE),
        ),
    )


def mail_queue(name: str, key: str, *, does: str, writes: bool) -> Queue:
    """Each mail holds a connection while it is sent. Without a mail server, events are only acknowledged."""
    return Queue(
        name=name,
        binds=(key,),
        role="notifier",
        does=does,
        concurrency=2,
        batch=1 if writes else 100,
        prefetch=16 if writes else 400,
    )


def make_topology(flow: SignUpFlow, *, writes_letters: bool = True) -> Topology:
    mail = (
        mail_queue(
            "notification_users_queue",
            "user.created",
            does="Sends a welcome mail to each new user.",
            writes=writes_letters,
        ),
        mail_queue(
            "notification_emails_queue",
            "user.email_change_requested",
            does="Sends the code for a new e-mail address, and a notice to the present one.",
            writes=writes_letters,
        ),
    )
    return Topology(
        exchanges=EXCHANGES,
        queues=(*DISPATCHER, *NOTIFIER, *mail, *HOUSEKEEPER, sign_up_queue(flow)),
        direct=DIRECT,
    )


TOPOLOGY = make_topology(SignUpFlow())
