"""The rules for pings, and the squares that a search looks at."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catraca.domains.location.model import (
    MAX_LATITUDE,
    UNTIMELY,
    Ping,
    PingRules,
    check_ping,
    check_pings,
)
from catraca.domains.location.store import read_ping, write_ping
from catraca.platform.geo import Place, straight_line_meters

NOW = datetime(2031, 5, 30, 14, tzinfo=UTC)
HERE = Place(-12.9777, -38.5016)
RULES = PingRules()
SECOND = timedelta(seconds=1)


def ping(meters: float = 0, *, at: timedelta = timedelta(0), accuracy: float | None = 0.0) -> Ping:
    """So far to the north, so long after now."""
    return Ping(Place(HERE.lat + meters / 111_195, HERE.lon), NOW + at, accuracy)


def verdict(sent: Ping, last: Ping | None = None) -> str | None:
    return check_ping(sent, last, now=NOW, rules=RULES)


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
        (ping(), ping(), None),  # the same once more
        (ping(5), ping(), "out_of_order"),  # elsewhere at the same moment
        (ping(699), ping(at=-10 * SECOND), None),
        (ping(702), ping(at=-10 * SECOND), "impossible"),
        (ping(799, accuracy=60), ping(at=-10 * SECOND, accuracy=40), None),
        (ping(802, accuracy=60), ping(at=-10 * SECOND, accuracy=40), "impossible"),
        (ping(799, accuracy=None), ping(at=-10 * SECOND, accuracy=None), None),  # 50 m are assumed
        (ping(802, accuracy=None), ping(at=-10 * SECOND, accuracy=None), "impossible"),
        (ping(90_000), ping(at=-61 * SECOND), None),  # after a long silence one may be anywhere
    ],
)
def test_each_rule_at_its_edge(sent: Ping, last: Ping | None, fault: str | None) -> None:
    assert verdict(sent, last) == fault


def test_only_what_is_about_now_tells_that_somebody_is_there() -> None:
    for sent, last, present in [
        (ping(accuracy=500), None, True),
        (ping(at=-SECOND), ping(), True),
        (ping(50_000), ping(), True),
        (ping(at=-90 * SECOND), None, False),
        (ping(at=90 * SECOND), None, False),
    ]:
        judged = check_pings([sent], last, now=NOW, rules=RULES)
        assert (judged.newest, judged.proves_presence) == (None, present)


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
def test_nobody_is_moved_back_or_faster_than_possible(sent: list[Ping], last: Ping | None) -> None:
    judged = check_pings(sent, last, now=NOW, rules=RULES)
    assert len(judged.faults) == len(sent)
    counted = sorted(
        (one for one, fault in zip(sent, judged.faults, strict=True) if fault is None), key=lambda p: p.at
    )
    assert judged.newest == (counted[-1] if counted else None)
    if last is not None and NOW - last.at <= RULES.max_age:
        counted.insert(0, last)
    for before, after in pairwise(counted):
        assert after.at >= before.at
        reach = RULES.max_speed_mps * (after.at - before.at).total_seconds()
        reach += before.error_meters + after.error_meters
        assert straight_line_meters(before.place, after.place) <= reach + 1e-6


@given(st.lists(PINGS, min_size=2, max_size=8, unique_by=lambda p: p.at), st.randoms(use_true_random=False))
def test_in_which_order_a_list_is_sent_does_not_matter(sent: list[Ping], chance: object) -> None:
    shuffled = list(sent)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (check_pings(pings, None, now=NOW, rules=RULES) for pings in (sent, shuffled))
    assert one.newest == other.newest
    assert dict(zip(sent, one.faults, strict=True)) == dict(zip(shuffled, other.faults, strict=True))


@given(PINGS, st.none() | PINGS)
def test_a_repeat_of_what_counted_counts_and_changes_nothing(sent: Ping, last: Ping | None) -> None:
    assume(verdict(sent, last) is None)
    assert verdict(sent, sent) is None


@given(PINGS, st.none() | PINGS)
def test_a_fault_of_time_is_told_whatever_came_before(sent: Ping, last: Ping | None) -> None:
    assert (verdict(sent) in UNTIMELY) == (verdict(sent, last) in UNTIMELY)


@given(st.builds(Ping, PLACES, st.timedeltas(timedelta(0), timedelta(days=20_000)).map(NOW.__add__)))
def test_a_ping_comes_back_from_redis_as_it_was(sent: Ping) -> None:
    sent = replace(sent, accuracy_meters=12.5)
    assert read_ping(write_ping(sent)) == sent
