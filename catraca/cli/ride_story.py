"""Prints the history of a ride on a terminal, from the API's answer."""

from collections import Counter
from datetime import datetime

from rich.console import Console
from rich.text import Text

from catraca.cli.ride_answer import summary_of
from catraca.cli.ride_words import MOVES, WITHDRAWN, away, because, clock, grouped, lasting, name, passed_over
from catraca.domains.matching import Verdict
from catraca.domains.matching.explain.schemas import LineOut, SearchOut, TimelineOut
from catraca.platform.clock import now

STYLES = {
    "searched": "cyan",
    "waits": "dim",
    "woken": "dim",
    "refused": "yellow",
    "silent": "yellow",
    "withdrawn": "yellow",
    "given_up": "yellow",
    "accepted": "green",
    "canceled": "red",
    "expired": "red",
}


def print_story(timeline: TimelineOut) -> None:
    console = Console(highlight=False)
    console.print(_head(timeline), soft_wrap=True)
    searches = iter(timeline.searches)
    for line in timeline.story:
        words = _searched(next(searches)) if line.what == "searched" else _words(line)
        console.print(Text(f"{clock(line.at)}  {words}", STYLES.get(line.what, "")), soft_wrap=True)
    if timeline.cut:
        console.print(Text(f"Not shown: more {' and '.join(timeline.cut)}.", "dim"))
    console.print(Text(summary_of(timeline), "bold"), soft_wrap=True)


def _head(timeline: TimelineOut) -> Text:
    began = timeline.story[0].at
    ended = timeline.status in ("COMPLETED", "PAID", "CANCELED", "EXPIRED", "PAYMENT_EXPIRED")
    until = timeline.story[-1].at if ended else now()
    return Text.assemble(
        (f"Ride {timeline.ride_id}", "bold"),
        f"  {timeline.status}, round {timeline.round}, {_date(began)}, ",
        f"{'took' if ended else 'for'} {lasting(until - began)}",
    )


def _date(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d")


def _searched(search: SearchOut) -> str:
    """Return the radius, the number of drivers, and why the others were not asked."""
    seen = sum(search.verdicts.values())
    where = f"search {search.search} within {away(search.radius_meters)}"
    if search.source == "database":
        where += ", without Redis"
    if seen == 0:
        return f"{where}: no driver"
    details = [f"{seen} seen"]
    asked = search.verdicts.get("offered", 0)
    if asked:
        details.append(f"{asked} asked")
        details += _nearer(search)
    else:
        details.append(f"no driver to ask: {grouped(search.verdicts)}")
    return f"{where}: {', '.join(details)}"


def _nearer(search: SearchOut) -> list[str]:
    """Return why nearer drivers than the asked ones were not asked."""
    furthest = max(one.distance_meters for one in search.seen if one.verdict == "offered")
    nearer: Counter[Verdict] = Counter(one.verdict for one in search.seen if one.distance_meters <= furthest)
    count = passed_over(nearer)
    return [f"{count} nearer: {grouped(nearer)}"] if count else []


def _words(line: LineOut) -> str:
    who = name(line.driver_id)
    match line.what:
        case "waits":
            return _waits(line)
        case "offered":
            by = "an operator asks" if line.by == "operator" else "asks"
            where = f", {away(line.distance_meters)} away" if line.distance_meters is not None else ""
            return f"{by} {who}{where}" + (f", until {clock(line.until)}" if line.until else "")
        case "refused":
            return f"{who} refuses{because(line.reason)}"
        case "silent":
            return f"{who} does not answer"
        case "withdrawn":
            reason = line.reason or "?"
            return f"the offer to {who} is withdrawn: {WITHDRAWN.get(reason, reason)}"
        case "accepted":
            return f"{who} accepts" + (", by an operator" if line.by == "operator" else "")
        case "given_up":
            return f"{who} gives the ride up{because(line.reason)}; round {line.round} begins"
        case "canceled":
            by = "over: no driver came" if line.by == "system" else f"canceled by the {line.by}"
            return f"{by}{because(line.reason)}"
        case _:
            return MOVES[line.what]


def _waits(line: LineOut) -> str:
    until = clock(line.until) if line.until else "?"
    match line.outcome:
        case "asked":
            return f"searches for more at {until}"
        case "snatched":
            return f"others were faster: searches again at {until}"
        case "index_away":
            return f"Redis was away: searches again at {until}"
        case "waits_on":
            return f"still waits until {until}"
        case _:
            return f"waits until {until}, or until a driver near by is free"
