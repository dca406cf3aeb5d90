"""Pings: what drivers' phones say, many times a minute each.

A ping is judged here, by the last one that counted, and applied in Redis if that still is the last: one trip
where this process knows it, and it mostly does, for a phone keeps its connection. What arrives meanwhile goes
together on the next trip. While Redis is away, or has forgotten the map, pings go to PostgreSQL instead.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Counter, Histogram

from catraca.domains.location.model import DriverId, Fault, Judged, Ping, PingRules, Source, judge_pings
from catraca.domains.location.service.tracking import Tracking
from catraca.domains.location.store import index, presence
from catraca.platform.clock import now
from catraca.platform.database import Db, Transact
from catraca.platform.gather import Gather
from catraca.platform.redis_client import RedisAway, RedisClient

PINGS = Counter("catraca_location_pings_total", "Pings by what became of them.", ["outcome"])
PING_AGE = Histogram(
    "catraca_location_ping_age_seconds",
    "How old a ping that counts was when it came.",
    buckets=(0.5, 1, 2, 5, 10, 20, 40, 60),
)
# One script must not keep Redis from others for long.
DRIVERS_A_TRIP = 500
REQUESTS_A_TRIP = 64
# Two phones of one driver may overtake each other; not for ever.
TRIES = 5
DRIVERS_REMEMBERED = 100_000
# In PostgreSQL somebody is written down so often within the time after which they would be taken for silent.
WRITTEN_WITHIN = 12

Pings = Mapping[DriverId, Sequence[Ping]]
Outcome = Fault | None


@dataclass(frozen=True, slots=True)
class Taken:
    """For each driver what became of each ping, and who is not at work at all."""

    outcomes: dict[DriverId, list[Outcome]]
    offline: set[DriverId]
    source: Source


class PingDesk:
    """Takes pings for this process."""

    def __init__(
        self, redis: RedisClient, transact: Transact, *, rules: PingRules, tracking: Tracking
    ) -> None:
        self._redis = redis
        self._transact = transact
        self._rules = rules
        self._tracking = tracking
        self._trips = Gather(self._make_trip, most=REQUESTS_A_TRIP)
        # The last ping of each driver, as Redis keeps it and as it is read.
        self._last: dict[DriverId, tuple[str, Ping]] = {}

    async def take(self, pings: Pings) -> Taken:
        """Judge and apply; a repeat changes nothing. Each driver's pings are judged in their own order."""
        taken = await self._trips.ask(pings)
        if taken.offline and taken.source == "redis" and (back := await self._put_back(taken.offline)):
            again = await self._trips.ask({driver_id: pings[driver_id] for driver_id in back})
            offline = taken.offline - back | again.offline
            taken = Taken({**taken.outcomes, **again.outcomes}, offline, again.source)
        _count(taken)
        return taken

    async def _put_back(self, driver_ids: set[DriverId]) -> set[DriverId]:
        """The map may have missed that somebody began to work; PostgreSQL knows."""
        online = await self._transact(lambda db: presence.online_among(db, driver_ids))
        with suppress(RedisAway):
            await index.show(self._redis, dict.fromkeys(online), mode="NX")
        return online

    async def _make_trip(self, requests: Sequence[Pings]) -> list[Taken]:
        together, spans = _merged(requests)
        source: Source = "redis"
        at = now()
        try:
            judged = await self._in_redis(together, at)
        except RedisAway:
            source = "database"
            judged = await self._transact(lambda db: self._in_database(db, together, at))
        for driver_id, verdict in judged.items():
            if verdict.newest is not None:
                self._tracking.note(driver_id, verdict.newest, at=at)
                PING_AGE.observe(max(0.0, (at - verdict.newest.at).total_seconds()))
        return [_share(part, judged, source) for part in spans]

    async def _in_redis(self, pings: Pings, at: datetime) -> dict[DriverId, Judged]:
        """Whoever is not among the answers is not online, as far as the map knows."""
        judged: dict[DriverId, Judged] = {}
        waiting = list(pings)
        for _ in range(TRIES):
            late: list[DriverId] = []
            for start in range(0, len(waiting), DRIVERS_A_TRIP):
                late += await self._apply(waiting[start : start + DRIVERS_A_TRIP], pings, at, judged)
            if not late:
                return judged
            waiting = late
        # Each time another one came in between.
        return judged | {one: Judged(["out_of_order"] * len(pings[one]), None) for one in waiting}

    async def _apply(
        self, driver_ids: Sequence[DriverId], pings: Pings, at: datetime, judged: dict[DriverId, Judged]
    ) -> list[DriverId]:
        """Judge by what is known and apply; answers whose last ping was another, and remembers it."""
        going: list[tuple[DriverId, Judged, index.Change]] = []
        for driver_id in driver_ids:
            text, last = self._last.get(driver_id, (index.NO_PING, None))
            verdict = judge_pings(pings[driver_id], last, now=at, rules=self._rules)
            if not verdict.tells_presence:
                judged[driver_id] = verdict
                continue
            ping = verdict.newest
            change = index.Change(
                str(driver_id),
                text,
                index.write_ping(ping) if ping else index.NO_PING,
                ping.place if ping else None,
            )
            going.append((driver_id, verdict, change))
        if not going:
            return []
        answers = await index.apply_changes(self._redis, [change for _, _, change in going])
        late: list[DriverId] = []
        for (driver_id, verdict, change), answer in zip(going, answers, strict=True):
            if answer == "+":
                judged[driver_id] = verdict
                if verdict.newest is not None:
                    self._remember(driver_id, change.ping, verdict.newest)
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

    async def _in_database(self, db: Db, pings: Pings, at: datetime) -> dict[DriverId, Judged]:
        """The same by the last position in PostgreSQL, which is written only now and then."""
        known = await presence.read_presence(db, pings)
        judged: dict[DriverId, Judged] = {}
        moves: list[presence.Move] = []
        silences: dict[DriverId, timedelta] = {}
        for driver_id, sent in pings.items():
            found = known.get(driver_id)
            if found is None or not found.online:
                continue
            verdict = judged[driver_id] = judge_pings(sent, found.last, now=at, rules=self._rules)
            is_due = found.silence >= self._rules.max_age / WRITTEN_WITHIN or found.last is None
            if verdict.newest is not None and is_due:
                moves.append(presence.Move(driver_id, verdict.newest))
            elif verdict.tells_presence and is_due:
                silences[driver_id] = timedelta(0)
        if moves:
            await presence.write_positions(db, moves)
        if silences:
            await presence.touch(db, silences)
        return judged


_Span = Mapping[DriverId, tuple[int, int]]


def _merged(requests: Sequence[Pings]) -> tuple[dict[DriverId, list[Ping]], list[_Span]]:
    """All pings of a driver together, and for each request which of them are its own."""
    together: dict[DriverId, list[Ping]] = {}
    spans: list[_Span] = []
    for pings in requests:
        span: dict[DriverId, tuple[int, int]] = {}
        for driver_id, sent in pings.items():
            all_of_them = together.setdefault(driver_id, [])
            start = len(all_of_them)
            all_of_them += sent
            span[driver_id] = (start, len(all_of_them))
        spans.append(span)
    return together, spans


def _share(span: _Span, judged: Mapping[DriverId, Judged], source: Source) -> Taken:
    outcomes: dict[DriverId, list[Outcome]] = {}
    offline: set[DriverId] = set()
    for driver_id, (start, end) in span.items():
        if driver_id in judged:
            outcomes[driver_id] = judged[driver_id].faults[start:end]
        else:
            offline.add(driver_id)
    return Taken(outcomes, offline, source)


def _count(taken: Taken) -> None:
    tally = Tally(fault or "accepted" for outcomes in taken.outcomes.values() for fault in outcomes)
    for outcome, times in tally.items():
        PINGS.labels(outcome).inc(times)
    if taken.offline:
        PINGS.labels("offline").inc(len(taken.offline))
