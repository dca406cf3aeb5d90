"""The rules by which pings are accepted."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from catraca.domains.location.model import (
    MAX_LATITUDE,
    UNTIMELY,
    DriverId,
    Ping,
    PingCheck,
    PingRules,
    SentPings,
    check_ping,
    check_pings,
)
from catraca.domains.location.store import read_ping, write_ping
from catraca.platform.geo import Place, straight_line_meters

NOW = datetime(2031, 5, 30, 14, tzinfo=UTC)
HERE = Place(-12.9777, -38.5016)
RULES = PingRules()
SECOND = timedelta(seconds=1)
DRIVER, OTHER = DriverId(uuid4()), DriverId(uuid4())


def ping(meters: float = 0, *, at: timedelta = timedelta(0), accuracy: float | None = 0.0) -> Ping:
    """A ping `meters` north, at `NOW + at`."""
    return Ping(Place(HERE.lat + meters / 111_195, HERE.lon), NOW + at, accuracy)


def fault_of(sent: Ping, last: Ping | None = None) -> str | None:
    return check_ping(sent, last, now=NOW, rules=RULES)


def check_of(sent: list[Ping], last: Ping | None = None) -> PingCheck:
    """The check of one driver's pings."""
    return check_pings(
        SentPings([DRIVER] * len(sent), sent), {DRIVER: last} if last else {}, now=NOW, rules=RULES
    )


@pytest.mark.parametrize(
    ("sent", "last", "fault"),
    [
        (ping(), None, None),
        (ping(at=-60 * SECOND), None, None),
        (ping(at=-60.001 * SECOND), None, "stale"),
        (ping(at=5 * SECOND), None, None),
        (ping(at=5.001 * SECOND), None, "future_dated"),
        (ping(accuracy=200), None, None),
        (ping(accuracy=200.1), None, "imprecise"),
        (ping(accuracy=None), None, None),
        (ping(), ping(at=-10 * SECOND), None),
        (ping(at=-11 * SECOND), ping(at=-10 * SECOND), "out_of_order"),
        (ping(), ping(), None),  # A repeat.
        (ping(5), ping(), "out_of_order"),  # Another place at the same time.
        (ping(699), ping(at=-10 * SECOND), None),
        (ping(702), ping(at=-10 * SECOND), "impossible"),
        (ping(799, accuracy=60), ping(at=-10 * SECOND, accuracy=40), None),
        (ping(802, accuracy=60), ping(at=-10 * SECOND, accuracy=40), "impossible"),
        (ping(799, accuracy=None), ping(at=-10 * SECOND, accuracy=None), None),  # 50 m are assumed.
        (ping(802, accuracy=None), ping(at=-10 * SECOND, accuracy=None), "impossible"),
        (ping(90_000), ping(at=-61 * SECOND), None),  # After a long silence.
    ],
)
def test_each_rule_at_its_limit(sent: Ping, last: Ping | None, fault: str | None) -> None:
    assert fault_of(sent, last) == fault


def test_untimely_pings_prove_no_presence() -> None:
    for sent, last, present in [
        (ping(accuracy=500), None, True),
        (ping(at=-SECOND), ping(), True),
        (ping(50_000), ping(), True),
        (ping(at=-90 * SECOND), None, False),
        (ping(at=90 * SECOND), None, False),
    ]:
        check = check_of([sent], last)
        assert (check.newest, check.present) == ({}, {DRIVER} if present else set())


PLACES = st.builds(Place, st.floats(-MAX_LATITUDE, MAX_LATITUDE), st.floats(-180, 180))
CLOSE = st.builds(
    Place, st.floats(HERE.lat - 0.05, HERE.lat + 0.05), st.floats(HERE.lon - 0.05, HERE.lon + 0.05)
)
PINGS = st.builds(
    Ping,
    CLOSE,
    st.timedeltas(-80 * SECOND, 10 * SECOND).map(NOW.__add__),
    st.none() | st.floats(0, 400),
)


@given(st.lists(PINGS, min_size=1, max_size=12), st.none() | PINGS)
def test_accepted_pings_are_ordered_and_possible(sent: list[Ping], last: Ping | None) -> None:
    check = check_of(sent, last)
    assert len(check.faults) == len(sent)
    accepted = sorted(
        (one for one, fault in zip(sent, check.faults, strict=True) if fault is None), key=lambda p: p.at
    )
    assert check.newest.get(DRIVER) == (accepted[-1] if accepted else None)
    if last is not None and NOW - last.at <= RULES.max_age:
        accepted.insert(0, last)
    for before, after in pairwise(accepted):
        assert after.at >= before.at
        reach = RULES.max_speed_mps * (after.at - before.at).total_seconds()
        reach += before.error_meters + after.error_meters
        assert straight_line_meters(before.place, after.place) <= reach + 1e-6


@given(st.lists(PINGS, min_size=2, max_size=8, unique_by=lambda p: p.at), st.randoms(use_true_random=False))
def test_order_of_a_list_does_not_matter(sent: list[Ping], chance: object) -> None:
    shuffled = list(sent)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (check_of(pings) for pings in (sent, shuffled))
    assert one.newest == other.newest
    assert dict(zip(sent, one.faults, strict=True)) == dict(zip(shuffled, other.faults, strict=True))


@given(st.lists(st.tuples(st.sampled_from([DRIVER, OTHER]), PINGS), max_size=12), st.none() | PINGS)
def test_drivers_in_one_list_do_not_affect_each_other(
    sent: list[tuple[DriverId, Ping]], last: Ping | None
) -> None:
    known = {DRIVER: last} if last else {}
    together = check_pings(
        SentPings([one for one, _ in sent], [ping for _, ping in sent]), known, now=NOW, rules=RULES
    )
    for driver_id in (DRIVER, OTHER):
        alone = check_of(
            [ping for one, ping in sent if one == driver_id], last if driver_id == DRIVER else None
        )
        assert [
            fault for (one, _), fault in zip(sent, together.faults, strict=True) if one == driver_id
        ] == alone.faults
        assert together.newest.get(driver_id) == alone.newest.get(DRIVER)
        assert (driver_id in together.present) == (DRIVER in alone.present)


@given(PLACES, st.floats(-0.05, 0.05), st.floats(-0.05, 0.05), st.integers(1, 60))
def test_speed_is_judged_by_the_straight_line(place: Place, north: float, east: float, seconds: int) -> None:
    """The shortcut for near pings gives the same result."""
    last, sent = (
        Ping(place, NOW - seconds * SECOND, 0.0),
        Ping(Place(place.lat + north, place.lon + east), NOW, 0.0),
    )
    is_possible = straight_line_meters(last.place, sent.place) <= RULES.max_speed_mps * seconds
    assert fault_of(sent, last) == (None if is_possible else "impossible")


@given(PINGS, st.none() | PINGS)
def test_repeat_of_an_accepted_ping_is_accepted(sent: Ping, last: Ping | None) -> None:
    assume(fault_of(sent, last) is None)
    assert fault_of(sent, sent) is None


@given(PINGS, st.none() | PINGS)
def test_untimely_fault_does_not_depend_on_the_last_ping(sent: Ping, last: Ping | None) -> None:
    assert (fault_of(sent) in UNTIMELY) == (fault_of(sent, last) in UNTIMELY)


@given(st.builds(Ping, PLACES, st.timedeltas(timedelta(0), timedelta(days=20_000)).map(NOW.__add__)))
def test_ping_survives_the_redis_encoding(sent: Ping) -> None:
    sent = replace(sent, accuracy_meters=12.5)
    assert read_ping(write_ping(sent)) == sent
