"""Records pings: many a minute from each driver's phone.

A ping is checked in this process against the driver's last ping and written to Redis if that still is the
last: one call, because the last ping is mostly known here (a phone keeps its connection). Pings that arrive
during a call go together in the next one. While Redis is down, or has lost the index, pings go to PostgreSQL.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal

from prometheus_client import Counter, Histogram

from catraca.domains.location import store as index
from catraca.domains.location.errors import DriverNotOnline
from catraca.domains.location.model import (
    DriverId,
    Fault,
    Ping,
    PingCheck,
    PingRules,
    SentPings,
    Source,
    check_pings,
)
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
    "Age of a request's last accepted ping when it was received.",
    buckets=(0.5, 1, 2, 5, 10, 20, 40, 60),
)
REQUESTS_PER_CALL = 64
# Two phones of one driver may overtake each other; not for ever.
TRIES = 5
DRIVERS_REMEMBERED = 100_000
# How often within the presence timeout a driver's ping is written to PostgreSQL while Redis is down.
DATABASE_WRITES_PER_TIMEOUT = 12

# None: the ping was accepted.
Outcome = Fault | Literal["offline"] | None


@dataclass(frozen=True, slots=True)
class PingResults:
    """The outcome of each ping."""

    outcomes: Sequence[Outcome]
    source: Source


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of each ping, and each driver's newest accepted one."""

    outcomes: list[Outcome]
    newest: dict[DriverId, Ping] = field(default_factory=dict[DriverId, Ping])


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
        self._last = LastPings()

    async def record_driver(self, driver_id: DriverId, pings: Sequence[Ping]) -> PingResults:
        """Record one driver's pings; raises `DriverNotOnline`."""
        results = await self.record(SentPings([driver_id] * len(pings), pings))
        if "offline" in results.outcomes:
            raise DriverNotOnline
        return results

    async def record(self, sent: SentPings) -> PingResults:
        """Check each driver's pings and write the newest accepted one. A repeat changes nothing."""
        at = now()
        results = await self._calls.ask(sent)
        if "offline" in results.outcomes and results.source == "redis":
            results = await self._record_restored(sent, results)
        _count(sent, results, at)
        return results

    async def _record_restored(self, sent: SentPings, results: PingResults) -> PingResults:
        """Add drivers to the index who are online in PostgreSQL, and record their pings.

        Redis was down when they went online.
        """
        outcomes = list(results.outcomes)
        offline = {
            one for one, outcome in zip(sent.driver_ids, outcomes, strict=True) if outcome == "offline"
        }
        online = await self._transact(lambda db: presence.online_among(db, offline))
        if not online:
            return results
        with suppress(RedisAway):
            await index.add_drivers(self._redis, dict.fromkeys(online), mode="NX")
        numbers = [number for number, one in enumerate(sent.driver_ids) if one in online]
        again = await self._calls.ask(sent.only(numbers))
        for number, outcome in zip(numbers, again.outcomes, strict=True):
            outcomes[number] = outcome
        return PingResults(outcomes, again.source)

    async def _record_together(self, requests: Sequence[SentPings]) -> list[PingResults]:
        together = SentPings(
            list(chain.from_iterable(sent.driver_ids for sent in requests)),
            list(chain.from_iterable(sent.pings for sent in requests)),
        )
        source: Source = "redis"
        at = now()
        try:
            recorded = await self._record_in_redis(together, at)
        except RedisAway:
            source = "database"
            recorded = await self._transact(lambda db: self._record_in_database(db, together, at))
        self._publisher.add(recorded.newest, at=at)
        outcomes = iter(recorded.outcomes)
        return [PingResults([next(outcomes) for _ in sent.pings], source) for sent in requests]

    async def _record_in_redis(self, sent: SentPings, at: datetime) -> Recorded:
        recorded = Recorded([None] * len(sent.pings))
        numbers: Sequence[int] = range(len(sent.pings))
        for _ in range(TRIES):
            check = check_pings(sent.only(numbers), self._last.pings, now=at, rules=self._rules)
            missing, changed = await self._write(check, recorded)
            for number, fault in zip(numbers, check.faults, strict=True):
                recorded.outcomes[number] = "offline" if sent.driver_ids[number] in missing else fault
            numbers = [number for number in numbers if sent.driver_ids[number] in changed]
            if not numbers:
                return recorded
        # At every try another process wrote a ping first.
        for number in numbers:
            recorded.outcomes[number] = "out_of_order"
        return recorded

    async def _write(self, check: PingCheck, recorded: Recorded) -> tuple[set[DriverId], set[DriverId]]:
        """Write the newest pings to Redis; adds those written to `recorded`.

        Returns drivers who are not in the index, and drivers whose last ping was not known here. It is now.
        """
        missing: set[DriverId] = set()
        changed: set[DriverId] = set()
        present = list(check.present)
        for start in range(0, len(present), index.MAX_DRIVERS_PER_WRITE):
            driver_ids = present[start : start + index.MAX_DRIVERS_PER_WRITE]
            pings = {one: check.newest[one] for one in driver_ids if one in check.newest}
            texts = {one: index.write_ping(ping) for one, ping in pings.items()}
            unwritten = await index.replace_pings(
                self._redis,
                driver_ids,
                [self._last.texts.get(one, index.NO_PING) for one in driver_ids],
                [texts.get(one, index.NO_PING) for one in driver_ids],
            )
            for one in (*unwritten.missing, *unwritten.changed):
                self._last.forget(one)
                pings.pop(one, None)
                texts.pop(one, None)
            recorded.newest.update(pings)
            learned = {one: text for one, text in unwritten.changed.items() if text != index.NO_PING}
            pings |= {one: index.read_ping(text) for one, text in learned.items()}
            self._last.remember(pings, texts | learned)
            missing |= unwritten.missing
            changed |= unwritten.changed.keys()
        return missing, changed

    async def _record_in_database(self, db: Db, sent: SentPings, at: datetime) -> Recorded:
        """Check against the last position in PostgreSQL, and write each driver at an interval only."""
        known = await presence.read_presence(db, set(sent.driver_ids))
        online = {one: row for one, row in known.items() if row.online}
        last = {one: row.last for one, row in online.items() if row.last is not None}
        check = check_pings(sent, last, now=at, rules=self._rules)
        interval = self._rules.max_age / DATABASE_WRITES_PER_TIMEOUT
        due = [
            one for one in check.present & online.keys() if one not in last or online[one].silence >= interval
        ]
        writes = [presence.PositionWrite(one, check.newest[one]) for one in due if one in check.newest]
        await write_positions(db, writes)
        if silences := {one: timedelta(0) for one in due if one not in check.newest}:
            await presence.write_silences(db, silences)
        return Recorded(
            [
                fault if one in online else "offline"
                for one, fault in zip(sent.driver_ids, check.faults, strict=True)
            ],
            {one: ping for one, ping in check.newest.items() if one in online},
        )


class LastPings:
    """The last ping of each driver, as far as this process knows: decoded, and as Redis has it."""

    def __init__(self) -> None:
        self.pings: dict[DriverId, Ping] = {}
        self.texts: dict[DriverId, str] = {}

    def remember(self, pings: Mapping[DriverId, Ping], texts: Mapping[DriverId, str]) -> None:
        self.pings.update(pings)
        self.texts.update(texts)
        while len(self.pings) > DRIVERS_REMEMBERED:
            self.forget(next(iter(self.pings)))

    def forget(self, driver_id: DriverId) -> None:
        self.pings.pop(driver_id, None)
        self.texts.pop(driver_id, None)


def _count(sent: SentPings, results: PingResults, received_at: datetime) -> None:
    """Once a request: metrics cost as much as all the rest of a ping."""
    outcomes = results.outcomes
    for outcome, times in Tally(outcomes).items():
        PINGS.labels(outcome or "accepted").inc(times)
    if None in outcomes:
        last = len(outcomes) - 1 - outcomes[::-1].index(None)
        PING_AGE.observe(max(0.0, (received_at - sent.pings[last].at).total_seconds()))
