"""Records pings: many a minute from each driver's phone.

A ping is checked in this process against the driver's last ping and written to Redis if that still is the
last: one call, because the last ping is mostly known here (a phone keeps its connection). Pings that arrive
during a call go together in the next one. While Redis is down, or has lost the index, pings go to PostgreSQL.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Counter, Histogram

from catraca.domains.location import store as index
from catraca.domains.location.errors import DriverNotOnline
from catraca.domains.location.model import DriverId, Fault, Ping, PingCheck, PingRules, Source, check_pings
from catraca.domains.location.positions.service import PositionPublisher
from catraca.domains.location.presence import store as presence
from catraca.domains.location.presence.service import write_positions
from catraca.platform.clock import now
from catraca.platform.database import Db, Transact
from catraca.platform.gather import Gather
from catraca.platform.redis_client import RedisAway, RedisClient

PINGS = Counter("catraca_location_pings_total", "Pings by outcome.", ["outcome"])
PING_AGE = Histogram(
    "catraca_location_ping_age_seconds",
    "Age of an accepted ping when it was received.",
    buckets=(0.5, 1, 2, 5, 10, 20, 40, 60),
)
# One script must not block Redis for long.
DRIVERS_PER_CALL = 500
REQUESTS_PER_CALL = 64
# Two phones of one driver may overtake each other; not for ever.
TRIES = 5
DRIVERS_REMEMBERED = 100_000
# How often within the presence timeout a driver's ping is written to PostgreSQL while Redis is down.
DATABASE_WRITES_PER_TIMEOUT = 12

Pings = Mapping[DriverId, Sequence[Ping]]


@dataclass(frozen=True, slots=True)
class PingResults:
    """For each online driver the fault of each ping, or None; and the drivers who are offline."""

    faults: dict[DriverId, list[Fault | None]]
    offline: set[DriverId]
    source: Source


class PingRecorder:
    """Per-process service; safe to run in many processes."""

    def __init__(
        self, redis: RedisClient, transact: Transact, *, rules: PingRules, publisher: PositionPublisher
    ) -> None:
        self._redis = redis
        self._transact = transact
        self._rules = rules
        self._publisher = publisher
        self._calls = Gather(self._record_together, most=REQUESTS_PER_CALL)
        # The last ping of each driver, as Redis has it and decoded.
        self._last: dict[DriverId, tuple[str, Ping]] = {}

    async def record_driver(self, driver_id: DriverId, pings: Sequence[Ping]) -> PingResults:
        """Record one driver's pings; raises `DriverNotOnline`."""
        results = await self.record({driver_id: pings})
        if results.offline:
            raise DriverNotOnline
        return results

    async def record(self, pings: Pings) -> PingResults:
        """Check each driver's pings and write the newest accepted one. A repeat changes nothing."""
        results = await self._calls.ask(pings)
        if results.offline and results.source == "redis" and (back := await self._restore(results.offline)):
            again = await self._calls.ask({driver_id: pings[driver_id] for driver_id in back})
            offline = results.offline - back | again.offline
            results = PingResults({**results.faults, **again.faults}, offline, again.source)
        _count(results)
        return results

    async def _restore(self, driver_ids: set[DriverId]) -> set[DriverId]:
        """Add drivers to the index who are online in PostgreSQL; Redis was down when they went online."""
        online = await self._transact(lambda db: presence.online_among(db, driver_ids))
        with suppress(RedisAway):
            await index.add_drivers(self._redis, dict.fromkeys(online), mode="NX")
        return online

    async def _record_together(self, requests: Sequence[Pings]) -> list[PingResults]:
        together, spans = _merged(requests)
        source: Source = "redis"
        at = now()
        try:
            checks = await self._record_in_redis(together, at)
        except RedisAway:
            source = "database"
            checks = await self._transact(lambda db: self._record_in_database(db, together, at))
        for driver_id, check in checks.items():
            if check.newest is not None:
                self._publisher.add(driver_id, check.newest, at=at)
                PING_AGE.observe(max(0.0, (at - check.newest.at).total_seconds()))
        return [_results_of(span, checks, source) for span in spans]

    async def _record_in_redis(self, pings: Pings, at: datetime) -> dict[DriverId, PingCheck]:
        """The check of each driver's pings, without drivers who are not online in the index."""
        checks: dict[DriverId, PingCheck] = {}
        waiting = list(pings)
        for _ in range(TRIES):
            late: list[DriverId] = []
            for start in range(0, len(waiting), DRIVERS_PER_CALL):
                late += await self._try_record(waiting[start : start + DRIVERS_PER_CALL], pings, at, checks)
            if not late:
                return checks
            waiting = late
        # At every try another process wrote a ping first.
        return checks | {one: PingCheck(["out_of_order"] * len(pings[one]), None) for one in waiting}

    async def _try_record(
        self, driver_ids: Sequence[DriverId], pings: Pings, at: datetime, checks: dict[DriverId, PingCheck]
    ) -> list[DriverId]:
        """Check and write; adds to `checks`, and returns drivers whose last ping was not known here."""
        sent: list[tuple[DriverId, PingCheck, index.PingUpdate]] = []
        for driver_id in driver_ids:
            text, last = self._last.get(driver_id, (index.NO_PING, None))
            check = check_pings(pings[driver_id], last, now=at, rules=self._rules)
            if not check.proves_presence:
                checks[driver_id] = check
                continue
            ping = check.newest
            update = index.PingUpdate(
                str(driver_id),
                text,
                index.write_ping(ping) if ping else index.NO_PING,
                ping.place if ping else None,
            )
            sent.append((driver_id, check, update))
        if not sent:
            return []
        answers = await index.apply_updates(self._redis, [update for _, _, update in sent])
        late: list[DriverId] = []
        for (driver_id, check, update), answer in zip(sent, answers, strict=True):
            if answer == "+":
                checks[driver_id] = check
                if check.newest is not None:
                    self._remember(driver_id, update.ping, check.newest)
            elif answer == "-":
                self._last.pop(driver_id, None)
            else:
                self._correct(driver_id, answer[1:])
                late.append(driver_id)
        return late

    def _remember(self, driver_id: DriverId, text: str, ping: Ping) -> None:
        self._last.pop(driver_id, None)
        self._last[driver_id] = (text, ping)
        if len(self._last) > DRIVERS_REMEMBERED:
            del self._last[next(iter(self._last))]

    def _correct(self, driver_id: DriverId, text: str) -> None:
        if text == index.NO_PING:
            self._last.pop(driver_id, None)
        else:
            self._remember(driver_id, text, index.read_ping(text))

    async def _record_in_database(self, db: Db, pings: Pings, at: datetime) -> dict[DriverId, PingCheck]:
        """Check against the last position in PostgreSQL, and write each driver at an interval only."""
        known = await presence.read_presence(db, pings)
        checks: dict[DriverId, PingCheck] = {}
        writes: list[presence.PositionWrite] = []
        silences: dict[DriverId, timedelta] = {}
        for driver_id, sent in pings.items():
            found = known.get(driver_id)
            if found is None or not found.online:
                continue
            check = checks[driver_id] = check_pings(sent, found.last, now=at, rules=self._rules)
            interval = self._rules.max_age / DATABASE_WRITES_PER_TIMEOUT
            is_due = found.silence >= interval or found.last is None
            if check.newest is not None and is_due:
                writes.append(presence.PositionWrite(driver_id, check.newest))
            elif check.proves_presence and is_due:
                silences[driver_id] = timedelta(0)
        await write_positions(db, writes)
        if silences:
            await presence.write_silences(db, silences)
        return checks


# For each driver of a request, the start and end of its pings among all of that driver.
_Span = Mapping[DriverId, tuple[int, int]]


def _merged(requests: Sequence[Pings]) -> tuple[dict[DriverId, list[Ping]], list[_Span]]:
    """All pings by driver, and each request's span of them."""
    together: dict[DriverId, list[Ping]] = {}
    spans: list[_Span] = []
    for pings in requests:
        span: dict[DriverId, tuple[int, int]] = {}
        for driver_id, sent in pings.items():
            all_of_driver = together.setdefault(driver_id, [])
            start = len(all_of_driver)
            all_of_driver += sent
            span[driver_id] = (start, len(all_of_driver))
        spans.append(span)
    return together, spans


def _results_of(span: _Span, checks: Mapping[DriverId, PingCheck], source: Source) -> PingResults:
    faults: dict[DriverId, list[Fault | None]] = {}
    offline: set[DriverId] = set()
    for driver_id, (start, end) in span.items():
        if driver_id in checks:
            faults[driver_id] = checks[driver_id].faults[start:end]
        else:
            offline.add(driver_id)
    return PingResults(faults, offline, source)


def _count(results: PingResults) -> None:
    tally = Tally(fault or "accepted" for faults in results.faults.values() for fault in faults)
    for outcome, times in tally.items():
        PINGS.labels(outcome).inc(times)
    if results.offline:
        PINGS.labels("offline").inc(len(results.offline))
