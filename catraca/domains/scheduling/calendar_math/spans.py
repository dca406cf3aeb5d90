"""Time spans: pairs of whole seconds since 1970, end excluded. Lists of spans are sorted."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Seconds = int
Span = tuple[Seconds, Seconds]
DAY: Seconds = 86_400
# Longer than any calendar.
ALWAYS: Span = (-(2**62), 2**62)


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same time, sorted and without overlaps. Adjacent spans are joined, empty ones dropped."""
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


def subtract(spans: Sequence[Span], removed: Sequence[Span]) -> list[Span]:
    """`spans` without `removed`; both sorted and without overlaps."""
    left: list[Span] = []
    place, count = 0, len(removed)
    for start, end in spans:
        while place < count and removed[place][1] <= start:
            place += 1
        here = place
        while here < count and removed[here][0] < end:
            cut_start, cut_end = removed[here]
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
    """The time in both lists; both sorted and without overlaps."""
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
    """True if one of these merged spans contains all of `start` to `end`."""
    place = bisect_right(spans, (start, ALWAYS[1])) - 1
    return place >= 0 and spans[place][1] >= end


def overlaps(spans: Sequence[Span], start: Seconds, end: Seconds) -> bool:
    """True if one of these sorted spans, which do not overlap each other, overlaps `start` to `end`."""
    place = bisect_right(spans, (end - 1, ALWAYS[1])) - 1
    return place >= 0 and spans[place][1] > start
