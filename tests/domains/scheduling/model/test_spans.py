"""Spans of time, compared with sets of seconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.scheduling.calendar_math.spans import (
    ALWAYS,
    Span,
    covers,
    intersect,
    merge,
    overlaps,
    subtract,
)

# A small range, so that edges meet often.
LAST = 14
places = st.integers(0, LAST)
# Also empty spans, and spans that end before they begin.
any_spans = st.lists(st.tuples(places, places), max_size=12)
merged = any_spans.map(merge)
# Claims of an agenda: in order, without overlaps, but adjacent.
stretches = st.tuples(places, places).filter(lambda span: span[0] < span[1])


@st.composite
def side_by_side(draw: st.DrawFn) -> list[Span]:
    edges = sorted(draw(st.sets(places, max_size=12)))
    spans = pairwise(edges)
    return [span for span in spans if draw(st.booleans())]


def seconds(spans: list[Span]) -> set[int]:
    return {second for start, end in spans for second in range(start, end)}


def is_in_order(spans: list[Span]) -> bool:
    """No span is empty or overlaps the next."""
    edges = [edge for span in spans for edge in span]
    return edges == sorted(edges) and all(start < end for start, end in spans)


def is_merged(spans: list[Span]) -> bool:
    edges = [edge for span in spans for edge in span]
    return edges == sorted(set(edges))


@given(any_spans)
def test_merge_keeps_the_time_in_the_fewest_spans(spans: list[Span]) -> None:
    assert seconds(merge(spans)) == seconds(spans)
    assert is_merged(merge(spans))


@given(st.one_of(merged, side_by_side()), st.one_of(merged, side_by_side()))
def test_subtraction_removes_exactly_the_given_seconds(spans: list[Span], taken: list[Span]) -> None:
    left = subtract(spans, taken)
    assert seconds(left) == seconds(spans) - seconds(taken)
    assert is_in_order(left)


@given(st.one_of(merged, side_by_side()), st.one_of(merged, side_by_side()))
def test_intersection_keeps_common_seconds(some: list[Span], others: list[Span]) -> None:
    shared = intersect(some, others)
    assert seconds(shared) == seconds(some) & seconds(others)
    assert is_in_order(shared)


@given(merged)
def test_always_covers_every_span(spans: list[Span]) -> None:
    assert intersect(spans, [ALWAYS]) == spans
    assert subtract(spans, [ALWAYS]) == []


@given(merged, stretches)
def test_a_covered_span_has_all_its_seconds_inside(spans: list[Span], span: Span) -> None:
    assert covers(spans, *span) == seconds([span]).issubset(seconds(spans))


@given(st.one_of(merged, side_by_side()), stretches)
def test_an_overlapping_span_shares_a_second(spans: list[Span], span: Span) -> None:
    assert overlaps(spans, *span) == bool(seconds([span]) & seconds(spans))
