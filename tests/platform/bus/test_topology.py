"""Patterns as AMQP reads them, topologies that are refused, and the one we run."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catraca.events import TOPOLOGY
from catraca.platform.bus import Queue, Topology, TopologyRefused, check_topology
from catraca.platform.bus.topology import RetryQueue, matches
from catraca.roles.consumers import check_wiring

KEYS = st.lists(st.sampled_from(["ride", "x", "started", ""]), max_size=5).map(".".join)
PATTERNS = st.lists(st.sampled_from(["ride", "x", "started", "", "*", "#"]), max_size=5).map(".".join)


@given(PATTERNS, KEYS)
@example("#", "")
@example("*", "")
@example("#.#", "ride")
@example("ride.#", "ride")
@example("ride.*", "ride")
def test_patterns_match_as_in_amqp(pattern: str, key: str) -> None:
    assert matches(pattern, key) == _matches_by_expression(pattern, key)


def _matches_by_expression(pattern: str, key: str) -> bool:
    """Each word with a dot behind it; `*` is one such word, `#` any number of them."""
    meanings = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".") if pattern else []
    expression = "".join(meanings.get(word, re.escape(word) + r"\.") for word in words)
    return re.fullmatch(expression, key + "." if key else "") is not None


def queue(name: str, *binds: str, **options: object) -> Queue:
    return Queue(name=name, binds=binds, role="notifier", does="Is tested.", **options)  # type: ignore[arg-type]


DEAD = queue("dead_letter_queue", "dlx", dead_letters_to=None)
EXCHANGES = {"rides.events": ("ride.started", "ride.ended"), "dlx": ()}


def refusal(
    *queues: Queue,
    exchanges: dict[str, tuple[str, ...]] = EXCHANGES,
    published: tuple[str, ...] = ("ride.started",),
    handled: dict[str, tuple[str, ...] | None] | None = None,
    **options: object,
) -> str:
    """The text of the refusal; empty if the topology is accepted."""
    topology = Topology(exchanges=exchanges, queues=queues, **options)  # type: ignore[arg-type]
    consumed = {one.name: None for one in topology.queues} if handled is None else handled
    try:
        check_topology(
            topology, published={key: key.split(".")[0] + "s.events" for key in published}, handled=consumed
        )
    except TopologyRefused as error:
        return str(error)
    return ""


def test_a_topology_that_loses_nothing_is_accepted() -> None:
    assert refusal(queue("rides", "ride.*"), DEAD, published=("ride.started", "ride.ended")) == ""
    handled = {"rides": ("ride.started", "ride.ended"), DEAD.name: None}
    assert refusal(queue("rides", "ride.#"), DEAD, handled=handled) == ""


def test_a_published_key_that_no_queue_gets_is_refused() -> None:
    assert refusal(queue("rides", "ride.started"), DEAD, published=("ride.ended",)) == (
        "ride.ended is published and no queue is bound to it: bind one, or do not publish it."
    )


def test_published_key_missing_in_its_exchange_is_refused() -> None:
    assert refusal(queue("rides", "#"), DEAD, published=("ride.flown",)) == (
        "ride.flown is published to rides.events, which does not list it: add it to that exchange."
    )


def test_a_pattern_that_nothing_matches_is_refused() -> None:
    assert refusal(queue("rides", "ride.*", "rode.*"), DEAD) == (
        "rides is bound to rode.*, which no exchange carries: correct the pattern."
    )


def test_a_queue_without_a_consumer_is_refused() -> None:
    assert refusal(queue("rides", "ride.*"), DEAD, handled={DEAD.name: None}) == (
        "rides has no consumer and would only fill: give role notifier its handlers."
    )


def test_queue_without_a_handler_for_a_key_is_refused() -> None:
    said = refusal(
        queue("rides", "ride.*"),
        DEAD,
        published=("ride.started", "ride.ended"),
        handled={"rides": ("ride.started",), DEAD.name: None},
    )
    assert said == "rides gets ride.ended and has no handler for it: write one, or unbind the key."


def test_handlers_of_unknown_queues_are_refused() -> None:
    handled = {"rides": None, "rdies": None, DEAD.name: None}
    assert refusal(queue("rides", "ride.*"), DEAD, handled=handled) == (
        "there are handlers for rdies, which is no queue: correct the name."
    )


def test_dead_letters_that_come_back_are_refused() -> None:
    own = queue("own", "dlx")
    assert refusal(queue("rides", "ride.*"), own) == (
        "dead letters of own come back to it by dlx: send them elsewhere, or nowhere."
    )
    there = queue("there", "ride.started", "back", dead_letters_to="forth")
    here = queue("here", "forth", dead_letters_to="back")
    said = refusal(there, here, exchanges={"rides.events": ("ride.started",), "forth": (), "back": ()})
    assert said.splitlines() == [
        "dead letters of there come back to it by forth: send them elsewhere, or nowhere.",
        "dead letters of here come back to it by back: send them elsewhere, or nowhere.",
    ]


def test_dead_letters_without_a_queue_are_refused() -> None:
    exchanges = {"rides.events": ("ride.started", "ride.ended"), "graves": ("grave",)}
    rides = queue("rides", "ride.started", dead_letters_to="graves")
    graves = queue("stones", "grave", dead_letters_to=None)
    assert refusal(rides, graves, exchanges=exchanges) == (
        "dead letters of rides go to graves, where no queue gets ride.started: bind one there."
    )
    nowhere = queue("rides", "ride.started", dead_letters_to="dxl")
    assert refusal(nowhere, DEAD) == (
        "dead letters of rides go to dxl, which is no exchange: correct the name."
    )


def test_dead_letter_key_without_a_queue_is_refused() -> None:
    exchanges = {"rides.events": ("ride.started",), "graves": ("grave",)}
    lost = queue("rides", "ride.started", dead_letters_to="graves", dead_letter_key="gone")
    found = replace(lost, dead_letter_key="grave")
    graves = queue("stones", "grave", dead_letters_to=None)
    assert refusal(lost, graves, exchanges=exchanges, direct=frozenset({"graves"})) == (
        "dead letters of rides go to graves, where no queue gets gone: bind one there."
    )
    assert refusal(found, graves, exchanges=exchanges, direct=frozenset({"graves"})) == ""


def test_dead_letters_that_come_back_by_another_key_are_refused() -> None:
    exchanges = {"rides.events": ("ride.started",), "graves": ("grave",)}
    there = queue("there", "ride.started", dead_letters_to="graves", dead_letter_key="grave")
    here = queue("here", "grave", dead_letters_to="rides.events", dead_letter_key="ride.started")
    assert len(refusal(there, here, exchanges=exchanges).splitlines()) == 2


def test_pattern_on_a_direct_exchange_is_refused() -> None:
    said = refusal(queue("rides", "ride.*"), DEAD, published=(), direct=frozenset({"rides.events"}))
    assert said == "rides is bound to ride.*, which no exchange carries: correct the pattern."


def test_a_prefetch_below_the_batch_is_refused() -> None:
    assert refusal(queue("rides", "ride.*", prefetch=10, batch=11), DEAD) == (
        "rides holds 10 messages and wants batches of 11, which could never fill: raise prefetch or lower"
        " batch."
    )
    assert refusal(queue("rides", "ride.*", prefetch=11, batch=11), DEAD) == ""


def test_key_of_transient_and_durable_queues_is_refused() -> None:
    fleeting = queue("positions", "ride.started", transient_seconds=5, dead_letters_to=None)
    assert refusal(fleeting, queue("rides", "ride.*"), DEAD) == (
        "ride.started goes to positions, which may drop it, and to rides, which may not: give each a key of"
        " its own."
    )


def test_a_topology_without_a_retry_is_refused() -> None:
    assert "retry_delays_seconds is empty" in refusal(queue("rides", "ride.*"), DEAD, retry_delays_seconds=())


@pytest.mark.parametrize("returns_by", [("rides.events", "ride.ended"), ("dlx", "ride.started")])
def test_retries_that_return_elsewhere_are_refused(returns_by: tuple[str, str]) -> None:
    own = RetryQueue(name="r", exchange="rx", delay_seconds=1, times=3, returns_by=returns_by)
    assert refusal(queue("rides", "ride.started", retries_in=own), DEAD) == (
        f"retries of rides return by {returns_by[0]} as {returns_by[1]}, which does not lead to it alone:"
        " give it a key of its own."
    )


def test_retries_that_also_reach_another_queue_are_refused() -> None:
    own = RetryQueue(
        name="r", exchange="rx", delay_seconds=1, times=3, returns_by=("rides.events", "ride.started")
    )
    rides, others = queue("rides", "ride.started", retries_in=own), queue("others", "ride.*")
    assert "does not lead to it alone" in refusal(rides, others, DEAD)


def test_a_queue_without_dead_letters_needs_a_retry_delay() -> None:
    own = RetryQueue(
        name="r", exchange="rx", delay_seconds=1, times=0, returns_by=("rides.events", "ride.started")
    )
    said = refusal(queue("rides", "ride.started", retries_in=own, dead_letters_to=None), DEAD)
    assert said == "rides keeps what fails, and has no delay to try it again: give it one."
    assert refusal(queue("rides", "ride.started", retries_in=own), DEAD) == ""


def test_every_fault_is_reported_at_once() -> None:
    said = refusal(queue("rides", "ride.started", batch=99), DEAD, published=("ride.ended",), handled={})
    assert len(said.splitlines()) == 4


def test_a_queue_matches_once() -> None:
    rides = queue("rides", "ride.*", "#", "ride.started")
    topology = Topology(exchanges=EXCHANGES, queues=(rides, DEAD))
    assert topology.route("rides.events", "ride.started") == [rides]
    assert topology.route("rides.events", "ride.flown") == [rides], "a key of a newer version finds its way"
    assert topology.route("dlx", "whatever") == [DEAD], "a fanout is bound by its name alone"
    assert topology.route("elsewhere", "ride.started") == []


# The table of the design: the role and the keys of each queue.
QUEUES = {
    "matching_service_queue": ("dispatcher", "ride.requested", "ride.reassigning"),
    "matching_retry_queue": ("dispatcher", "matching.driver_rejected", "matching.driver_timeout"),
    "matching_timeout_queue": ("dispatcher", "matching.timeout", "matching.no_drivers_available"),
    "matching_availability_queue": (
        "dispatcher",
        "location.driver.online",
        "location.driver.offline",
        "location.driver.idle",
        "location.driver.entered_community",
        "location.driver.left_community",
    ),
    "ride_updates_queue": (
        "dispatcher",
        "matching.driver_accepted",
        "ride.completed",
        "ride.cancelled",
        "ride.reassigning",
    ),
    "notification_rides_queue": (
        "notifier",
        "ride.confirmation_expired",
        "ride.matched",
        "ride.arriving",
        "ride.started",
        "ride.completed",
        "ride.cancelled",
        "ride.reassigning",
        "ride.paid",
        "ride.payment_expired",
    ),
    "notification_matching_queue": (
        "notifier",
        "matching.candidate_found",
        "matching.timeout",
        "matching.no_drivers_available",
        "offer.canceled",
    ),
    "notification_appointments_queue": ("notifier", "appointment.*"),
    "notification_users_queue": ("notifier", "user.created"),
    "notification_emails_queue": ("notifier", "user.email_change_requested"),
    "notification_push_queue": ("notifier", "notification.push_due"),
    "tracking_realtime_queue": ("notifier", "location.driver.updated"),
    "billing_events_queue": ("housekeeper", "ride.started", "ride.completed", "ride.cancelled"),
    "analytics_events_queue": ("housekeeper", "ride.*"),
    "analytics_matching_queue": ("housekeeper", "matching.*"),
    "audit_log_queue": (
        "housekeeper",
        "ride.*",
        "matching.*",
        "offer.*",
        "user.*",
        "appointment.*",
        "charge.*",
        "analytics.*",
    ),
    "raffle_queue": ("ingester", "raffle_queue"),
    "raffle_dlq": ("housekeeper", "raffle_dlq"),
    "dead_letter_queue": ("housekeeper", "dlx"),
}
CARRIED = {
    "rides.events": "ride.requested ride.confirmation_expired ride.matched ride.accepted ride.arriving"
    " ride.started ride.completed"
    " ride.cancelled ride.reassigning ride.flagged ride.paid ride.payment_expired",
    "matching.events": "matching.candidate_found matching.offer_sent matching.driver_accepted"
    " matching.driver_rejected matching.driver_timeout matching.retry matching.timeout"
    " matching.no_drivers_available offer.canceled",
    "location.events": "location.driver.updated location.driver.online location.driver.offline"
    " location.driver.idle location.driver.entered_community location.driver.left_community",
    "users.events": "user.created user.rejected user.email_change_requested",
    "appointments.events": "appointment.booked appointment.rescheduled appointment.confirmed"
    " appointment.canceled appointment.no_show appointment.reminder_due appointment.slot_offered",
    "billing.events": "charge.opened charge.paid charge.expired",
    "analytics.events": "analytics.matches_failing",
}


def test_queues_match_the_design() -> None:
    assert {one.name: (one.role, set(one.binds)) for one in TOPOLOGY.queues} == {
        name: (role, set(binds)) for name, (role, *binds) in QUEUES.items()
    }


def test_our_exchanges_carry_the_keys_of_the_design() -> None:
    for exchange, keys in CARRIED.items():
        assert set(TOPOLOGY.exchanges[exchange]) == set(keys.split())
    assert TOPOLOGY.exchanges["dlx"] == ()


def test_our_exchanges_have_the_kinds_of_the_seeds() -> None:
    kinds = {exchange: TOPOLOGY.kind_of(exchange) for exchange in TOPOLOGY.exchanges}
    special = {"raffle_exchange": "direct", "raffle_dlx": "direct", "dlx": "fanout"}
    assert kinds == dict.fromkeys(kinds, "topic") | special
    sign_ups = TOPOLOGY.queue("raffle_queue")
    assert (sign_ups.dead_letters_to, sign_ups.dead_letter_key) == ("raffle_dlx", "raffle_dlq")


def test_queues_except_positions_are_durable_with_dead_letters() -> None:
    for one in TOPOLOGY.queues:
        assert (one.transient_seconds is not None) == (one.name == "tracking_realtime_queue")
        ends_here = one.name in {"tracking_realtime_queue", "dead_letter_queue", "raffle_dlq"}
        expected = None if ends_here else "raffle_dlx" if one.name == "raffle_queue" else "dlx"
        assert one.dead_letters_to == expected
    assert TOPOLOGY.retry_delays_seconds == tuple(sorted(TOPOLOGY.retry_delays_seconds))
    assert len(TOPOLOGY.retry_delays_seconds) == 3
    assert TOPOLOGY.delivery_limit == 50


def test_our_topology_is_accepted() -> None:
    check_wiring()
