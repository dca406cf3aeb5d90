"""A ride's story as a person reads it on a terminal: told from the API's answer, and from nothing else."""

from collections import Counter
from datetime import datetime

from rich.console import Console
from rich.text import Text

from catraca.cli.ride_answer import answer_of
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


def print_story(told: TimelineOut) -> None:
    console = Console(highlight=False)
    console.print(_head(told), soft_wrap=True)
    searches = iter(told.searches)
    for line in told.story:
        words = _searched(next(searches)) if line.what == "searched" else _words(line)
        console.print(Text(f"{clock(line.at)}  {words}", STYLES.get(line.what, "")), soft_wrap=True)
    if told.cut:
        console.print(Text(f"Not all is told: there were more {' and '.join(told.cut)}.", "dim"))
    console.print(Text(answer_of(told), "bold"), soft_wrap=True)


def _head(told: TimelineOut) -> Text:
    began = told.story[0].at
    ended = told.status in ("COMPLETED", "PAID", "CANCELED", "EXPIRED", "PAYMENT_EXPIRED")
    until = told.story[-1].at if ended else now()
    return Text.assemble(
        (f"Ride {told.ride_id}", "bold"),
        f"  {told.status}, round {told.round}, {_date(began)}, ",
        f"{'took' if ended else 'for'} {lasting(until - began)}",
    )


def _date(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d")


def _searched(search: SearchOut) -> str:
    """How far out, how many there were, and why the others were not asked."""
    seen = sum(search.verdicts.values())
    where = f"search {search.search} within {away(search.radius_meters)}"
    if search.source == "database":
        where += ", without the map"
    if seen == 0:
        return f"{where}: nobody is there"
    told = [f"{seen} seen"]
    asked = search.verdicts.get("offered", 0)
    if asked:
        told.append(f"{asked} asked")
        told += _nearer(search)
    else:
        told.append(f"nobody to ask: {grouped(search.verdicts)}")
    return f"{where}: {', '.join(told)}"


def _nearer(search: SearchOut) -> list[str]:
    """Of whom was asked although others were nearer: what was it with those?"""
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
            return f"{who} accepts" + (", by an operator's hand" if line.by == "operator" else "")
        case "given_up":
            return f"{who} gives the ride up{because(line.reason)}; round {line.round} begins"
        case "canceled":
            by = "over: nobody came" if line.by == "system" else f"canceled by the {line.by}"
            return f"{by}{because(line.reason)}"
        case _:
            return MOVES[line.what]


def _waits(line: LineOut) -> str:
    until = clock(line.until) if line.until else "?"
    match line.outcome:
        case "asked":
            return f"looks for more at {until}"
        case "snatched":
            return f"others were faster: looks again at {until}"
        case "index_away":
            return f"without the map nobody can be sure: looks again at {until}"
        case "waits_on":
            return f"waits on, until {until}"
        case _:
            return f"waits until {until}, or until a driver comes free near by"
