"""Stretches of time as pairs of whole seconds since 1970, the end not included; lists of them in order."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Seconds = int
Span = tuple[Seconds, Seconds]
# Longer than any calendar.
ALWAYS: Span = (-(2**62), 2**62)


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same time in order, without overlaps; what touches becomes one. Empty ones are left out."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def subtract(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """What is left of `spans`; both in order and without overlaps."""
    left: list[Span] = []
    place, count = 0, len(taken)
    for start, end in spans:
        while place < count and taken[place][1] <= start:
            place += 1
        here = place
        while here < count and taken[here][0] < end:
            cut_start, cut_end = taken[here]
            if cut_start > start:
                left.append((start, cut_start))
            if cut_end >= end:
                start = end
                break
            if cut_end > start:
                start = cut_end
            here += 1
        if start < end:
            left.append((start, end))
    return left


def intersect(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """What is in both; both in order and without overlaps."""
    shared: list[Span] = []
    here = there = 0
    while here < len(some) and there < len(others):
        start = max(some[here][0], others[there][0])
        end = min(some[here][1], others[there][1])
        if start < end:
            shared.append((start, end))
        if some[here][1] < others[there][1]:
            here += 1
        else:
            there += 1
    return shared


def covers(spans: Sequence[Span], start: Seconds, end: Seconds) -> bool:
    """Whether all of it lies within one of these merged spans."""
    place = bisect_right(spans, (start, ALWAYS[1])) - 1
    return place >= 0 and spans[place][1] >= end


def touches(spans: Sequence[Span], start: Seconds, end: Seconds) -> bool:
    """Whether any of it lies within one of these spans, which are in order and do not overlap."""
    place = bisect_right(spans, (end - 1, ALWAYS[1])) - 1
    return place >= 0 and spans[place][1] > start
