"""The model among repeated, reordered, late and lost messages, crashes, and Redis outages."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from catraca.domains.matching.candidates.model import Candidate
from catraca.domains.matching.search.model import (
    CandidatesFound,
    DriverNearby,
    EndRide,
    FindCandidates,
    MakeOffers,
    Matching,
    OffersMade,
    PublishRetry,
    Recheck,
    RideState,
    Rules,
    step,
)
from tests.domains.matching.simulation.machine import Machine
from tests.domains.matching.simulation.rides import START
from tests.support.examples import examples

BOUNDED = settings(
    max_examples=examples(300),
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
)


def test_random_faults_break_no_law() -> None:
    run_state_machine_as_test(Machine, settings=BOUNDED)


moments = st.integers(-400, 400).map(lambda seconds: START + timedelta(seconds=seconds))
few = st.integers(-1, 4)
every_rules = st.builds(
    Rules,
    offers_at_once=few,
    max_attempts_per_search=few,
    search_retry_interval=st.sampled_from((0, 1, 30, 1000)).map(lambda seconds: timedelta(seconds=seconds)),
    initial_radius_meters=st.sampled_from((-1, 0, 5000)),
    max_radius_meters=st.sampled_from((0, 100, 15000)),
    radius_increment_meters=st.sampled_from((-2500, 0, 2500)),
)
# Also states that no step produces.
every_matching = st.builds(
    Matching,
    ride_id=st.just(UUID(int=1)),
    round=few,
    started_at=moments,
    phase=st.sampled_from(("searching", "matched", "ended")),
    search=few,
    offers=few,
    next_search_at=st.none() | moments,
    wake_at=st.none() | moments,
)
every_standing = st.builds(
    RideState,
    state=st.sampled_from(("open", "taken", "over")),
    round=few,
    since=moments,
    deadline_at=moments,
    live=few,
    expires_at=st.none() | moments,
)
candidates = st.lists(st.builds(Candidate, st.just(UUID(int=2)), st.floats(0, 1e4)), max_size=3)
every_event = st.one_of(
    every_standing.map(Recheck),
    every_standing.map(DriverNearby),
    st.builds(CandidatesFound, every_standing, candidates, st.booleans()),
    st.builds(OffersMade, every_standing, few),
)
thorough = settings(max_examples=examples(400), deadline=None, derandomize=True, database=None)


@thorough
@given(every_matching, every_event, moments, every_rules)
def test_step_is_defined_for_every_event_and_state(
    matching: Matching, event: Any, now: Any, rules: Rules
) -> None:
    after, effects = step(matching, event, now, rules)
    assert after.ride_id == matching.ride_id
    assert after.round == max(matching.round, event.ride.round)
    requests = [effect for effect in effects if isinstance(effect, FindCandidates | MakeOffers)]
    assert len(requests) <= 1, "at most one search or offer per step"
    if event.ride.round < matching.round:
        assert (after, effects) == (matching, ())
        return
    # The constraints of the schema.
    assert (after.wake_at is not None) == (after.phase == "searching")
    assert after.next_search_at is None or after.phase == "searching"
    if event.ride.state != "open" or now >= event.ride.deadline_at:
        assert after.phase != "searching"
        assert requests == []
    if any(isinstance(effect, EndRide) for effect in effects):
        assert (after.phase, event.ride.state, now >= event.ride.deadline_at) == ("ended", "open", True)


@thorough
@given(every_matching, every_standing, moments, every_rules)
def test_step_without_effects_is_idempotent(
    matching: Matching, ride: RideState, now: Any, rules: Rules
) -> None:
    after, effects = step(matching, Recheck(ride), now, rules)
    if not effects:
        assert step(after, Recheck(ride), now, rules) == (after, ())


@thorough
@given(every_matching, every_event, every_rules)
def test_step_without_questions_wakes_later(matching: Matching, event: Any, rules: Rules) -> None:
    """A wake time in the past would loop."""
    now = START
    if event.ride.expires_at is not None and event.ride.expires_at <= now:
        return  # the caller has ended expired offers
    if rules.search_retry_interval <= timedelta(0):
        return
    after, effects = step(matching, event, now, rules)
    if event.ride.round >= matching.round and not any(
        isinstance(one, FindCandidates | MakeOffers) for one in effects
    ):
        assert after.wake_at is None or after.wake_at > now


@thorough
@given(every_matching, every_event, moments, st.integers(1, 3), st.integers(1, 4))
def test_step_never_asks_more_than_wanted(
    matching: Matching, event: Any, now: Any, at_once: int, attempts: int
) -> None:
    rules = Rules(offers_at_once=at_once, max_attempts_per_search=attempts)
    after, effects = step(matching, event, now, rules)
    for effect in effects:
        if isinstance(effect, MakeOffers):
            assert 0 < effect.wanted <= at_once - event.ride.live
            assert effect.wanted <= attempts - after.offers
        if isinstance(effect, FindCandidates):
            assert effect.radius_meters == rules.radius_of(after.search)


def test_no_second_retry_event_while_redis_is_down() -> None:
    """All offers were answered long after the round began, and Redis is away."""
    started, now = START, START + timedelta(minutes=2)
    matching = Matching(ride_id=UUID(int=1), round=1, started_at=started, offers=1)
    ride = RideState(state="open", round=1, since=started, deadline_at=started + timedelta(minutes=5))
    waiting, effects = step(matching, CandidatesFound(ride, (), certain=False), now, Rules())
    assert [type(effect) for effect in effects] == [PublishRetry]
    assert step(waiting, Recheck(ride), now, Rules()) == (waiting, ())
