"""Publishes the events of the outbox: claims a batch, publishes it, marks confirmed events as sent."""

import asyncio
import random
from collections import Counter as CountOf
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID, uuid4

import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.bus.transport import BusAway, PublishFailed, SharesDatabase, Transport
from catraca.platform.clock import now
from catraca.platform.database import Database, Db, Row, outbox, use_custom_plans
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within

log = structlog.get_logger()

BATCH = 500
# Longer than publishing a batch may take. The claims of a dead relay expire after this.
LEASE_SECONDS = 6.0
POLL_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 30.0

SENT = Counter("catraca_outbox_sent_total", "Events the bus has confirmed.", ["exchange"])
FAILED = Counter(
    "catraca_outbox_failed_total", "Events that the bus refused, by reason; they are retried.", ["reason"]
)
LAG_SECONDS = Histogram(
    "catraca_outbox_lag_seconds",
    "From recording an event to the bus's confirmation, of the oldest event in each batch.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2, 10, 60),
)


class Relay:
    """Any number can run in parallel; an event is sent by the relay that holds its aggregate's lease."""

    def __init__(self, database: Database, transport: Transport) -> None:
        self._database = database
        self._transport = transport
        self._start = outbox.FIRST_AGGREGATE
        # False if the last batch had every event that could be sent.
        self._has_more = False

    async def run(self, stopping: asyncio.Event) -> None:
        """Send until `stopping` is set. Claimed events are then still sent, or released."""
        pause_seconds = 0.0
        with self._database.channel.subscribe(outbox.WAKE_TOPIC) as woken:
            while not stopping.is_set():
                woken.clear()
                try:
                    await self.send_batch()
                except (Refusal, BusAway) as error:
                    pause_seconds = min(LONGEST_PAUSE_SECONDS, pause_seconds * 2 + FIRST_PAUSE_SECONDS)
                    log.warning("relay_pauses", reason=type(error).__name__, seconds=pause_seconds)
                    await within(pause_seconds * random.uniform(0.5, 1), stopping)  # noqa: S311
                    continue
                pause_seconds = 0.0
                if not self._has_more:
                    await within(POLL_SECONDS, woken, stopping)

    async def send_batch(self) -> int:
        """Send one batch; returns its number of events. Raises BusAway, after releasing unsent events."""
        if isinstance(self._transport, SharesDatabase):
            return await self._move(self._transport)
        return await self._publish()

    async def _publish(self) -> int:
        lease = uuid4()
        claimed = await self._database.run(partial(self._claim, lease=lease))
        if not claimed:
            return 0
        outcomes = await self._transport.publish([outbox.message_of(event) for event in claimed])
        await self._database.run(partial(_put_away, events=claimed, outcomes=outcomes, lease=lease))
        _count(claimed, outcomes)
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, PublishFailed):
                raise outcome
        return len(claimed)

    async def _claim(self, db: Db, *, lease: UUID) -> Sequence[Row]:
        await use_custom_plans(db)
        return await self._next_after_last(
            partial(outbox.claim_unsent, db, lease=lease, lease_seconds=LEASE_SECONDS, limit=BATCH)
        )

    async def _move(self, transport: SharesDatabase) -> int:
        """For a bus in the same database: publish and mark as sent in one transaction, without a lease."""

        async def move(db: Db) -> tuple[Sequence[Row], Sequence[Exception | None]]:
            await use_custom_plans(db)
            events = await self._next_after_last(partial(outbox.lock_unsent, db, limit=BATCH))
            if not events:
                return (), ()
            outcomes = await transport.take_over(db, events)
            await _postpone(db, events, outcomes, None)
            return events, outcomes

        events, outcomes = await self._database.run(move)
        _count(events, outcomes)
        return len(events)

    async def _next_after_last(self, take: Callable[..., Awaitable[Sequence[Row]]]) -> Sequence[Row]:
        """Start after the last aggregate of a full batch, so that a busy one does not block others."""
        start = self._start
        events = await take(start=start)
        if not events and start != outbox.FIRST_AGGREGATE:
            start = outbox.FIRST_AGGREGATE
            events = await take(start=start)
        is_full = len(events) >= BATCH
        self._has_more = is_full or start != outbox.FIRST_AGGREGATE
        self._start = _behind(events[-1]["aggregate_id"]) if is_full else outbox.FIRST_AGGREGATE
        return events


def _behind(aggregate_id: UUID) -> UUID:
    return UUID(int=(aggregate_id.int + 1) % 2**128)


async def _put_away(
    db: Db, *, events: Sequence[Row], outcomes: Sequence[Exception | None], lease: UUID
) -> None:
    """Mark confirmed events as sent; postpone refused events; release the rest."""
    await use_custom_plans(db)
    results = list(zip(events, outcomes, strict=True))
    if sent := [event["id"] for event, outcome in results if outcome is None]:
        await outbox.mark_sent(db, sent, lease=lease)
    if unsent := [event["id"] for event, outcome in results if outcome is not None]:
        await _postpone(db, events, outcomes, lease)
        await outbox.release(db, unsent, lease=lease)


async def _postpone(
    db: Db, events: Sequence[Row], outcomes: Sequence[Exception | None], lease: UUID | None
) -> None:
    """Delay each aggregate with a refused event, longer every time."""
    refused: dict[UUID, tuple[Row, str]] = {}
    for event, outcome in zip(events, outcomes, strict=True):
        if isinstance(outcome, PublishFailed):
            refused.setdefault(event["aggregate_id"], (event, type(outcome).__name__))
    if not refused:
        return
    # A full queue refuses hundreds at once: one log line per key and reason.
    for (key, reason), count in CountOf((e["routing_key"], why) for e, why in refused.values()).items():
        log.error("events_refused", key=key, reason=reason, aggregates=count)
    firsts = [event for event, _ in refused.values()]
    await outbox.postpone(
        db, [event["id"] for event in firsts], [_delay_seconds(event) for event in firsts], lease=lease
    )


def _delay_seconds(event: Row) -> float:
    return min(LONGEST_DELAY_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(event["failures"], 10))


def _count(events: Sequence[Row], outcomes: Sequence[Exception | None]) -> None:
    sent = [event for event, outcome in zip(events, outcomes, strict=True) if outcome is None]
    # The exchange of a replayed message may be foreign text, which must not become a label.
    for exchange, count in CountOf(
        "replays" if event["queue"] else event["exchange"] for event in sent
    ).items():
        SENT.labels(exchange).inc(count)
    for reason, count in CountOf(type(outcome).__name__ for outcome in outcomes if outcome).items():
        FAILED.labels(reason).inc(count)
    if sent:
        oldest = min(event["created_at"] for event in sent)
        LAG_SECONDS.observe(max(0.0, (now() - oldest).total_seconds()))
