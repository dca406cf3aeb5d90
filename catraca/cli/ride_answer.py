"""One sentence: who came and how, or why nobody did."""

from collections import Counter
from uuid import UUID

from catraca.cli.ride_words import away, because, clock, grouped, lasting, name
from catraca.domains.matching import Verdict
from catraca.domains.matching.explain.schemas import LineOut, TimelineOut

ANSWERS = {"refused": "refused", "silent": "did not answer", "withdrawn": "lost the offer"}
WENT = "went offline"


def answer_of(told: TimelineOut) -> str:
    """Told of the last round: what happened in earlier ones stands in the story."""
    lines = [line for line in told.story if line.round == told.round]
    accepted = next((line for line in lines if line.what == "accepted"), None)
    last = told.story[-1]
    if told.status in ("REQUESTED", "SEARCHING", "OFFERED"):
        return _still_looking(told)
    if last.what == "canceled" and last.by != "system":
        return _called_off(last, accepted, lines)
    if accepted is None:
        return _nobody_came(told, lines)
    return _somebody_came(accepted, lines)


def _somebody_came(accepted: LineOut, lines: list[LineOut]) -> str:
    where = f", {away(accepted.distance_meters)} away" if accepted.distance_meters is not None else ""
    how = f"in search {accepted.search}" if accepted.search else "asked by an operator"
    waited = lasting(accepted.at - lines[0].at)
    others = _asked([line for line in lines if line.driver_id != accepted.driver_id])
    rest = f"; of others, {others}" if others else ""
    return f"{name(accepted.driver_id)} came: accepted after {waited}, {how}{where}{rest}."


def _called_off(last: LineOut, accepted: LineOut | None, lines: list[LineOut]) -> str:
    so_far = f"{name(accepted.driver_id)} had accepted" if accepted else _asked(lines)
    return f"The {last.by} canceled{because(last.reason)}; {so_far or 'nobody had been asked'}."


def _nobody_came(told: TimelineOut, lines: list[LineOut]) -> str:
    searched = [line for line in lines if line.what == "searched"]
    asked = _asked(lines) or "nobody could be asked"
    if not searched:
        reason = "what the searches saw is not kept any more" if told.cut else "no search was made"
        return f"Nobody came: {asked}, and {reason}."
    reach = away(max(line.radius_meters or 0 for line in searched))
    others = grouped(_others(told))
    if others:
        return f"Nobody came: {asked}. Of the others within reach ({reach}): {others}."
    if any(line.what == "offered" for line in lines):
        return f"Nobody came: {asked}, and nobody else was there within {reach}."
    return f"Nobody came: no driver was at work within {reach}."


def _others(told: TimelineOut) -> Counter[Verdict]:
    """What the last round's searches saw last of each driver who was never asked."""
    last: dict[UUID, Verdict] = {}
    for search in told.searches:
        if search.round == told.round:
            last |= {seen.driver_id: seen.verdict for seen in search.seen}
    for offer in told.offers:
        if offer.round == told.round:
            last.pop(offer.driver_id, None)
    return Counter(last.values())


def _still_looking(told: TimelineOut) -> str:
    live = [offer for offer in told.offers if offer.response is None]
    if live:
        names = ", ".join(name(offer.driver_id) for offer in live[:3]) + (", ..." if len(live) > 3 else "")
        doing = f"being asked: {names}"
    elif told.next_search_at is not None:
        doing = f"the next search is at {clock(told.next_search_at)}"
    else:
        doing = "nobody is being asked"
    return f"Nobody has come yet, and there is time until {clock(told.deadline_at)}; {doing}."


def _asked(lines: list[LineOut]) -> str:
    """`3 were asked: 2 refused, 1 did not answer`; nothing, if nobody was."""
    asked = sum(line.what == "offered" for line in lines)
    if not asked:
        return ""
    answers = Counter(
        WENT if line.reason == "driver_offline" else ANSWERS[line.what]
        for line in lines
        if line.what in ANSWERS
    )
    said = ", ".join(f"{count} {what}" for what, count in answers.items())
    return f"{asked} {'was' if asked == 1 else 'were'} asked" + (f": {said}" if said else "")
