"""The role that tidies: what has passed its retention goes, a bounded amount at a time.

It also consumes what nobody waits for (the audit log, dead letters), and tells how much waits in the queues.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import structlog
from prometheus_client import Gauge

from catraca.domains.analytics.jobs import prune_demand, prune_windows
from catraca.domains.dead_letters import count_dead_letters, prune_dead_letters
from catraca.domains.geofences.jobs import prune_confirmations
from catraca.domains.location.jobs import prune_shares
from catraca.domains.matching import prune_searches
from catraca.domains.notifications import prune_notifications, prune_tickets
from catraca.domains.people.jobs import prune_password_links
from catraca.domains.scheduling.jobs import forget_walk_ins, prune_holds
from catraca.platform.bus import BusAway
from catraca.platform.database import Db
from catraca.platform.database.idempotency import prune_idempotency_keys
from catraca.platform.database.inbox import prune_inbox
from catraca.platform.database.outbox import prune_sent
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within
from catraca.roles.consuming import consume
from catraca.roles.duties import queue_duties
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of

log = structlog.get_logger()

SWEEP_SECONDS = 60.0
ROUNDS_A_SWEEP = 200
LOOK_SECONDS = 5.0

# Of living processes only: what a dead one saw last must not stand for what is.
QUEUE_DEPTH = Gauge(
    "catraca_bus_queue_depth", "Messages waiting in a queue.", ["queue"], multiprocess_mode="livemostrecent"
)
RETRY_DEPTH = Gauge(
    "catraca_bus_retry_depth",
    "Messages waiting for another try, by the name of where they wait.",
    ["queue"],
    multiprocess_mode="livemostrecent",
)
DEAD_LETTERS = Gauge(
    "catraca_dead_letters",
    "Messages that could not be handled and wait for a person, by where and why; counted up to 10 000.",
    ["queue", "reason"],
    multiprocess_mode="livemostrecent",
)


class Housekeeper:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._told: set[tuple[str, str]] = set()

    async def run(self, life: Life) -> None:
        await all_of(
            consume(self._parts, "housekeeper", life), self._sweep_now_and_then(life), self._look(life)
        )

    async def _sweep_now_and_then(self, life: Life) -> None:
        while not life.stopping.is_set():
            try:
                await self.sweep()
            except Refusal as refusal:  # the database is away: the next sweep finds the same work
                log.warning("sweep_postponed", code=refusal.code)
            await within(SWEEP_SECONDS, life.stopping)

    async def sweep(self) -> None:
        """One round of every duty. Safe at any number of housekeepers: rows are taken with SKIP LOCKED."""
        settings = self._parts.settings
        duties: dict[str, Callable[[Db], Awaitable[int]]] = {
            "idempotency_keys": partial(
                prune_idempotency_keys, older_than=settings.http.idempotency_retention
            ),
            "password_links": prune_password_links,
            "outbox_sent": partial(prune_sent, older_than=settings.bus.outbox_retention),
            "inbox": partial(prune_inbox, older_than=settings.bus.inbox_retention),
            "dead_letters": partial(
                prune_dead_letters,
                older_than=settings.bus.dead_letter_retention,
                duties=queue_duties(self._parts.topology),
            ),
            "matching_searches": partial(prune_searches, older_than=settings.matching.search_retention),
            "notifications": partial(
                prune_notifications, older_than=settings.notifications.notification_retention
            ),
            "ws_tickets": prune_tickets,
            "trip_shares": prune_shares,
            "ride_confirmations": prune_confirmations,
            "holds": prune_holds,
            "walk_ins": partial(forget_walk_ins, older_than=settings.scheduling.walk_in_retention),
            "demand": prune_demand,
            "match_windows": prune_windows,
        }
        for what, prune in duties.items():
            if pruned := await self._repeat(prune):
                log.info("pruned", what=what, count=pruned)

    async def _repeat(self, prune: Callable[[Db], Awaitable[int]]) -> int:
        """Until nothing is left, a bounded number of short transactions; answers how many rows went."""
        total = 0
        for _ in range(ROUNDS_A_SWEEP):
            pruned = await self._parts.database.run(prune)
            if pruned == 0:
                break
            total += pruned
        return total

    async def _look(self, life: Life) -> None:
        while not life.stopping.is_set():
            # Whoever is away is told of by those who need it; the figures stay as they were.
            with suppress(BusAway):
                await self.measure_queues()
            with suppress(Refusal):
                await self.measure_dead_letters()
            await within(LOOK_SECONDS, life.stopping)

    async def measure_queues(self) -> None:
        for queue, depth in (await self._parts.bus.depths()).items():
            QUEUE_DEPTH.labels(queue).set(depth)
        for queue, depth in (await self._parts.bus.retrying()).items():
            RETRY_DEPTH.labels(queue).set(depth)

    async def measure_dead_letters(self) -> None:
        """By queue and reason; a group that is gone is told as none, else its last figure would stay."""
        async with self._parts.database.connection() as db:
            counts = await count_dead_letters(db)
        for group in self._told | counts.keys():
            DEAD_LETTERS.labels(*group).set(counts.get(group, 0))
        self._told |= counts.keys()
