"""The role that moves rides on: by what happened, and by the passing of time."""

from prometheus_client import Gauge

from catraca.platform import timers
from catraca.platform.errors import Refusal
from catraca.platform.timekeeper import Timekeeper
from catraca.platform.timers import TimerHandlers
from catraca.platform.waiting import within
from catraca.roles.consuming import consume
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of

# What each domain does when its timers are due.
TIMERS: tuple[TimerHandlers, ...] = ()
LOOK_SECONDS = 5.0

PENDING = Gauge(
    "catraca_timers_pending",
    "Timers set, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
OVERDUE = Gauge(
    "catraca_timers_overdue",
    "Timers nobody fired in time, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)


class Dispatcher:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        timekeeper = Timekeeper(self._parts.database, TIMERS, self._parts.hands)
        await all_of(
            consume(self._parts, "dispatcher", life), timekeeper.run(life.stopping), self._watch(life)
        )

    async def _watch(self, life: Life) -> None:
        seen: set[str] = set()
        while not life.stopping.is_set():
            try:
                async with self._parts.database.connection() as db:
                    counts = {count.kind: count for count in await timers.count_timers(db)}
            except Refusal:
                pass  # the timekeeper itself says so
            else:
                seen |= counts.keys()
                for kind in seen:  # a kind that has none left is told as none
                    count = counts.get(timers.TimerKind(kind))
                    PENDING.labels(kind).set(count.pending if count else 0)
                    OVERDUE.labels(kind).set(count.overdue if count else 0)
            await within(LOOK_SECONDS, life.stopping)
