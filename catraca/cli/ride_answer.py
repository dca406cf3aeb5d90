"""A summary sentence: which driver came and how, or why no driver came."""

from collections import Counter
from uuid import UUID

from catraca.cli.ride_words import away, because, clock, grouped, lasting, name
from catraca.domains.matching import Verdict
from catraca.domains.matching.explain.schemas import LineOut, TimelineOut

ANSWERS = {"refused": "refused", "silent": "did not answer", "withdrawn": "lost the offer"}
OFFLINE = "went offline"


def summary_of(timeline: TimelineOut) -> str:
    """Summarize the last round; the story has the earlier ones."""
    lines = [line for line in timeline.story if line.round == timeline.round]
    accepted = next((line for line in lines if line.what == "accepted"), None)
    last = timeline.story[-1]
    if timeline.status in ("REQUESTED", "SEARCHING", "OFFERED"):
        return _open(timeline)
    if last.what == "canceled" and last.by != "system":
        return _canceled(last, accepted, lines)
    if accepted is None:
        return _not_found(timeline, lines)
    return _accepted(accepted, lines)


def _accepted(accepted: LineOut, lines: list[LineOut]) -> str:
    where = f", {away(accepted.distance_meters)} away" if accepted.distance_meters is not None else ""
    how = f"in search {accepted.search}" if accepted.search else "asked by an operator"
    waited = lasting(accepted.at - lines[0].at)
    others = _asked([line for line in lines if line.driver_id != accepted.driver_id])
    rest = f"; of others, {others}" if others else ""
    return f"{name(accepted.driver_id)} came: accepted after {waited}, {how}{where}{rest}."


def _canceled(last: LineOut, accepted: LineOut | None, lines: list[LineOut]) -> str:
    so_far = f"{name(accepted.driver_id)} had accepted" if accepted else _asked(lines)
    return f"The {last.by} canceled{because(last.reason)}; {so_far or 'no driver had been asked'}."


def _not_found(timeline: TimelineOut, lines: list[LineOut]) -> str:
    searched = [line for line in lines if line.what == "searched"]
    asked = _asked(lines) or "no driver could be asked"
    if not searched:
        reason = "the search records are deleted" if timeline.cut else "no search was made"
        return f"No driver came: {asked}, and {reason}."
    reach = away(max(line.radius_meters or 0 for line in searched))
    others = grouped(_others(timeline))
    if others:
        return f"No driver came: {asked}. Of the other drivers within reach ({reach}): {others}."
    if any(line.what == "offered" for line in lines):
        return f"No driver came: {asked}, and no other driver was within {reach}."
    return f"No driver came: no driver was online within {reach}."


def _others(timeline: TimelineOut) -> Counter[Verdict]:
    """Count the last verdicts of the round on drivers without an offer."""
    last: dict[UUID, Verdict] = {}
    for search in timeline.searches:
        if search.round == timeline.round:
            last |= {seen.driver_id: seen.verdict for seen in search.seen}
    for offer in timeline.offers:
        if offer.round == timeline.round:
            last.pop(offer.driver_id, None)
    return Counter(last.values())


def _open(timeline: TimelineOut) -> str:
    live = [offer for offer in timeline.offers if offer.response is None]
    if live:
        names = ", ".join(name(offer.driver_id) for offer in live[:3]) + (", ..." if len(live) > 3 else "")
        doing = f"being asked: {names}"
    elif timeline.next_search_at is not None:
        doing = f"the next search is at {clock(timeline.next_search_at)}"
    else:
        doing = "no driver is being asked"
    return f"No driver has come yet; the search ends at {clock(timeline.deadline_at)}; {doing}."


def _asked(lines: list[LineOut]) -> str:
    """Return `3 were asked: 2 refused, 1 did not answer`; empty without offers."""
    asked = sum(line.what == "offered" for line in lines)
    if not asked:
        return ""
    answers = Counter(
        OFFLINE if line.reason == "driver_offline" else ANSWERS[line.what]
        for line in lines
        if line.what in ANSWERS
    )
    counts = ", ".join(f"{count} {what}" for what, count in answers.items())
    return f"{asked} {'was' if asked == 1 else 'were'} asked" + (f": {counts}" if counts else "")
