"""The counts of the city: a live table on a terminal, a line every few seconds elsewhere."""

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from catraca.client.demo import Tally, percentile

REDRAW_SECONDS = 0.5
LINE_SECONDS = 10.0
STATES = ("free", "asked", "fetching", "driving")


class Screen:
    """Shows the tally while the city runs, and at its end."""

    def __init__(self, tally: Tally, *, drivers: int, url: str, as_json: bool) -> None:
        self._tally = tally
        self._drivers = drivers
        self._url = url
        self._as_json = as_json
        self._began = time.monotonic()
        # With JSON on standard output, the lines go to standard error.
        self._console = Console(stderr=as_json, highlight=False, soft_wrap=True)

    async def show(self, running: Coroutine[Any, Any, Tally]) -> None:
        """Show the counts until `running` ends."""
        work = asyncio.create_task(running)
        table = Live(self._table(), console=self._console, auto_refresh=False, transient=True)
        on_terminal = self._console.is_terminal
        try:
            with table if on_terminal else nullcontext():
                while not work.done():
                    await asyncio.wait([work], timeout=REDRAW_SECONDS if on_terminal else LINE_SECONDS)
                    if on_terminal:
                        table.update(self._table(), refresh=True)
                    elif not work.done():
                        self._console.print(self._line())
        finally:
            work.cancel()
            await asyncio.wait([work])
        work.result()
        if self._as_json:
            print(json.dumps(self.summary()), flush=True)  # noqa: T201 - this is the command's result
        else:
            self._console.print(self._table() if on_terminal else self._line())

    def summary(self) -> dict[str, Any]:
        """The result as one object, for programs."""
        seconds = round(time.monotonic() - self._began, 1)
        return {"url": self._url, "seconds": seconds, "drivers": self._drivers, **self._tally.summary()}

    def _line(self) -> str:
        tally = self._tally
        working = sum(tally.drivers.values())
        return (
            f"The city: {tally.requested} rides requested, {tally.matched} matched ({self._match_times()}),"
            f" {tally.completed} completed, {tally.paid} paid, {tally.canceled} canceled,"
            f" {tally.unserved} without a driver;"
            f" {tally.in_communities} in communities; {tally.appointments['booked']} appointments;"
            f" {working} of {self._drivers} drivers at work ({_counted(tally.drivers)});"
            f" {tally.messages.total()} messages, {tally.refusals.total()} refusals,"
            f" {tally.failures.total()} failures"
        )

    def _table(self) -> Group:
        tally = self._tally
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        title = Text(f"Simulated city at {self._url} ({minutes}:{seconds:02d})", style="bold")
        table = Table(show_header=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(style="dim")
        table.add_column(justify="right", style="bold")
        table.add_column()
        drivers = {state: tally.drivers[state] for state in STATES}
        rows = (
            ("rides requested", tally.requested, ""),
            ("matched", tally.matched, self._match_times()),
            ("completed", tally.completed, ""),
            ("paid in cash", tally.paid, ""),
            ("canceled", tally.canceled, ""),
            ("without a driver", tally.unserved, ""),
            ("trips shared", tally.shared, ""),
            ("in communities", tally.in_communities, _counted(tally.questions)),
            ("appointments", tally.appointments["booked"], _counted(tally.appointments, without="booked")),
            ("offers", tally.offers["received"], _counted(tally.offers, without="received")),
            ("drivers at work", sum(drivers.values()), _counted(drivers)),
            ("messages", tally.messages.total(), _counted(tally.messages)),
            ("connections lost", tally.lost_connections, ""),
            ("refusals", tally.refusals.total(), _counted(tally.refusals)),
            ("failures", tally.failures.total(), _counted(tally.failures)),
        )
        for name, count, more in rows:
            table.add_row(name, str(count), more)
        return Group(title, table)

    def _match_times(self) -> str:
        times = self._tally.match_seconds
        median, p95 = percentile(times, 50), percentile(times, 95)
        return "" if median is None else f"median {median:.1f} s, p95 {p95:.1f} s"


def _counted(counts: Mapping[str, int], *, without: str = "") -> str:
    shown = {name: count for name, count in counts.items() if count and name != without}
    return ", ".join(f"{count} {name}" for name, count in shown.items())
