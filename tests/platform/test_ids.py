"""UUIDv7: the right bits, the right time, always in order."""

import threading
import time
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest

from catraca.platform import ids
from catraca.platform.ids import new_id, new_ids


def milliseconds_of(id_: UUID) -> int:
    return id_.int >> 80


def test_version_and_variant_are_those_of_rfc_9562() -> None:
    for _ in range(1000):
        id_ = new_id()
        assert (id_.version, id_.variant) == (7, RFC_4122)


def test_first_bits_are_the_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    id_ = new_id()
    after = time.time_ns() // 1_000_000
    assert before <= milliseconds_of(id_) <= after


def test_hundred_thousand_ids_are_ordered_also_as_text() -> None:
    made = [new_id() for _ in range(100_000)]
    assert all(first < second for first, second in pairwise(made))
    texts = [str(id_) for id_ in made]
    assert texts == sorted(texts)


def test_ids_made_together_are_distinct_and_in_order() -> None:
    made = [new_id(), *new_ids(1000), new_id(), *new_ids(2)]
    assert all(first < second for first, second in pairwise(made))
    assert len({id_.int & 2**62 - 1 for id_ in made}) == len(made)
    assert new_ids(0) == []


def test_threads_share_one_order() -> None:
    """The ids of each thread are ordered, and no two threads get the same tick."""
    made: list[list[UUID]] = [[] for _ in range(4)]
    together = threading.Barrier(len(made))

    def make(mine: list[UUID]) -> None:
        together.wait()
        mine.extend(new_id() for _ in range(10_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    ticks = [id_.int >> 64 for mine in made for id_ in mine]
    assert len(set(ticks)) == 40_000


def test_clock_set_back_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_id()
    hour_ago = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(ids.time, "time_ns", lambda: hour_ago)
    later = [new_id() for _ in range(5000)]
    assert [first, *later] == sorted([first, *later])


def test_other_bits_are_random() -> None:
    tails = {new_id().int & ((1 << 62) - 1) for _ in range(10_000)}
    assert len(tails) == 10_000
    assert 0.4 < sum(tail >> 61 for tail in tails) / len(tails) < 0.6
