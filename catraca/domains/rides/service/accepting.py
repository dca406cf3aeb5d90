"""Accepting a ride: one claim, one winner.

Attempts that arrive together are judged together, in one transaction that holds their rides. What decides is
the database: the rides' rows, the guards in the statement, and the constraints behind it. The gate in Redis
only says which way to go: attempts at a ride that seems taken need not hold it, and share one statement that
records them; should the ride be open after all, they are handed back to be judged like the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import Counter, Histogram

from catraca.domains.people import UserId
from catraca.domains.rides.errors import RideNotFound
from catraca.domains.rides.model import Accepted, Attempt, RideId, refusal_for
from catraca.domains.rides.service import telling
from catraca.domains.rides.service.due import RIDE_DUE
from catraca.domains.rides.store import attempts as store
from catraca.domains.rides.store import gate
from catraca.domains.rides.store.attempts import Judged
from catraca.domains.rides.store.rides import lock_free_rides, lock_ride
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db, GenericPlans, outbox, timers
from catraca.platform.errors import Busy, Refusal
from catraca.platform.event import Event
from catraca.platform.gather import Gather
from catraca.platform.redis_client import RedisAway, RedisClient

log = structlog.get_logger()

ACCEPTS = Counter(
    "catraca_ride_accepts_total", "Attempts to accept a ride, by what they came to.", ["outcome"]
)
ACCEPT_SECONDS = Histogram(
    "catraca_ride_accept_seconds",
    "From an attempt's arrival to its answer.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
STEERED = Counter(
    "catraca_ride_accepts_steered_total",
    "Attempts by where the gate sent them: to the claim, aside, or aside and back.",
    ["way"],
)

Outcome = Judged | Exception | None
"""Judged, failed, or at a ride that is not there (or that somebody else holds just now)."""

# Rides that somebody else holds are waited for, a few at a time: everybody else needs connections too.
WAITED_FOR_AT_ONCE = 3
# An attempt recorded by somebody else at the same moment is found the next time.
ASKED_AT_MOST = 3
TRIED_ALONE = 2


class Accepting:
    """One for each process."""

    def __init__(self, database: Database, redis: RedisClient) -> None:
        self._database = database
        self._redis = redis
        self._claims: Gather[Attempt, Outcome] = Gather(self._claim)
        self._losers: Gather[Attempt, Outcome] = Gather(self._record)
        self._looks: Gather[RideId, bool] = Gather(lambda rides: gate.seem_taken(redis, rides))
        self._waits: dict[RideId, Gather[Attempt, Outcome]] = {}
        self._hands = asyncio.Semaphore(WAITED_FOR_AT_ONCE)
        self._hints: set[asyncio.Task[None]] = set()

    async def accept_ride(self, attempt: Attempt) -> Accepted:
        """Give the ride to this driver, or say why not. A repeat of the same attempt gets the same answer."""
        began = monotonic_seconds()
        outcome = "failed"
        try:
            judged = await self._judged(attempt)
            outcome = "repeated" if judged.repeated else judged.verdict
        except Refusal as refusal:
            outcome = refusal.code
            raise
        finally:
            ACCEPTS.labels(outcome).inc()
            ACCEPT_SECONDS.observe(monotonic_seconds() - began)
        if judged.accepted is not None:
            return judged.accepted
        assert judged.verdict not in ("accepted", "open", "again")
        raise refusal_for(judged.verdict, ride_status=judged.ride_status)

    def forget(self, ride_id: RideId) -> None:
        """Take the gate's hint back: nobody has the ride any more."""
        self._tell_gate(gate.hint_open(self._redis, ride_id))

    async def _judged(self, attempt: Attempt) -> Judged:
        aside = await self._seems_taken(attempt.ride_id)
        for _ in range(ASKED_AT_MOST):
            judged = await (self._ask_aside(attempt) if aside else self._ask(attempt))
            if judged is None:
                raise RideNotFound
            if judged.verdict == "open":
                aside = False
                STEERED.labels("aside_and_back").inc()
            elif judged.verdict != "again":
                return judged
        raise Busy

    async def _seems_taken(self, ride_id: RideId) -> bool:
        taken = False
        if self._redis.seems_up():
            with suppress(RedisAway):
                taken = await self._looks.ask(ride_id)
        STEERED.labels("aside" if taken else "to_the_claim").inc()
        return taken

    async def _ask_aside(self, attempt: Attempt) -> Judged | None:
        return _raised(await self._losers.ask(attempt))

    async def _ask(self, attempt: Attempt) -> Judged | None:
        outcome = await self._claims.ask(attempt)
        if outcome is None:  # held by somebody, or not there: whoever waits for it holds up nobody else
            if attempt.ride_id not in self._waits:
                self._waits[attempt.ride_id] = Gather(self._wait_and_claim)
            outcome = await self._waits[attempt.ride_id].ask(attempt)
        return _raised(outcome)

    async def _claim(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        return await _in_waves(attempts, self._claim_wave)

    async def _wait_and_claim(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        self._waits.pop(attempts[0].ride_id, None)
        async with self._hands:
            return await _in_waves(attempts, self._wait_for_wave)

    async def _record(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        return await _in_waves(attempts, self._record_wave)

    async def _claim_wave(self, wave: Sequence[Attempt]) -> dict[UUID, Judged]:
        return self._hinted(await self._database.run(lambda db: claim_rides(db, wave), GenericPlans()))

    async def _wait_for_wave(self, wave: Sequence[Attempt]) -> dict[UUID, Judged]:
        async def claim(db: Db) -> dict[UUID, Judged]:
            await lock_ride(db, wave[0].ride_id)
            return await _claim_held(db, wave)

        return self._hinted(await self._database.run(claim, GenericPlans()))

    async def _record_wave(self, wave: Sequence[Attempt]) -> dict[UUID, Judged]:
        return await self._database.run(
            lambda db: store.judge_attempts(db, wave, may_win=False), GenericPlans()
        )

    def _hinted(self, judged: dict[UUID, Judged]) -> dict[UUID, Judged]:
        """The same, and the gate is told who won."""
        winners = {
            one.accepted.ride_id: one.accepted.driver_id
            for one in judged.values()
            if one.won and one.accepted
        }
        if winners:
            self._tell_gate(gate.hint_taken(self._redis, winners))
        return judged

    def _tell_gate(self, hint: Coroutine[Any, Any, None]) -> None:
        """Without waiting: it is no part of any answer."""

        async def tell() -> None:
            with suppress(RedisAway):
                await hint

        task = asyncio.create_task(tell())
        self._hints.add(task)
        task.add_done_callback(self._hints.discard)


async def claim_rides(db: Db, wave: Sequence[Attempt]) -> dict[UUID, Judged]:
    """Judge attempts at those of their rides that nobody else holds just now; the others are left out."""
    ours = await lock_free_rides(db, (attempt.ride_id for attempt in wave))
    return await _claim_held(db, [attempt for attempt in wave if attempt.ride_id in ours])


async def _claim_held(db: Db, wave: Sequence[Attempt]) -> dict[UUID, Judged]:
    """Judge attempts at rides that this transaction holds, and write what is to be told of the winners."""
    if not wave:
        return {}
    judged = await store.judge_attempts(db, wave, may_win=True)
    events: list[Event] = []
    taken: list[RideId] = []
    for one in judged.values():
        if one.won is not None:
            if one.accepted is None:  # the attempt was recorded by somebody else meanwhile: undo, ask again
                raise Busy
            events += telling.acceptance(one.accepted, one.won)
            taken.append(one.accepted.ride_id)
    if taken:
        await outbox.record(db, *events)
        await timers.cancel_timer(db, RIDE_DUE, *taken)
    return judged


async def _in_waves(
    attempts: Sequence[Attempt], judge: Callable[[Sequence[Attempt]], Awaitable[dict[UUID, Judged]]]
) -> list[Outcome]:
    """Each attempt's outcome. The same attempt, sent twice, is judged once."""
    firsts: dict[tuple[RideId, UserId, str | None], Attempt] = {}
    waves: list[dict[UserId, Attempt]] = []
    for attempt in attempts:
        if firsts.setdefault(_sameness(attempt), attempt) is attempt:
            # One of each driver at a time: whether a second one wins depends on the first.
            wave = next((wave for wave in waves if attempt.driver_id not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[attempt.driver_id] = attempt
    outcomes: dict[UUID, Outcome] = {}
    for wave in waves:
        outcomes |= await _judge_wave(list(wave.values()), judge)
    return [_shared(attempt, firsts[_sameness(attempt)], outcomes) for attempt in attempts]


def _sameness(attempt: Attempt) -> tuple[RideId, UserId, str | None]:
    return attempt.ride_id, attempt.driver_id, attempt.idempotency_key


def _shared(attempt: Attempt, first: Attempt, outcomes: dict[UUID, Outcome]) -> Outcome:
    outcome = outcomes.get(first.id)
    if attempt is not first and isinstance(outcome, Judged):
        return replace(outcome, repeated=True)
    return outcome


async def _judge_wave(
    wave: Sequence[Attempt], judge: Callable[[Sequence[Attempt]], Awaitable[dict[UUID, Judged]]]
) -> dict[UUID, Outcome]:
    """All together; should that fail, one by one, so that each fails, if at all, for a cause of its own."""
    outcomes: dict[UUID, Outcome] = {}
    try:
        return outcomes | await judge(wave)
    except Refusal as refusal:  # the database is away or busy, for all of them
        return dict.fromkeys((attempt.id for attempt in wave), refusal)
    except Exception as error:  # noqa: BLE001 - told to whoever asked, below
        log.warning("accepts_one_by_one", count=len(wave), error=type(error).__name__)
    for attempt in wave:
        outcomes |= await _judge_alone(attempt, judge)
    return outcomes


async def _judge_alone(
    attempt: Attempt, judge: Callable[[Sequence[Attempt]], Awaitable[dict[UUID, Judged]]]
) -> dict[UUID, Outcome]:
    """Who comes too late at the commit finds the offer expired the next time."""
    outcomes: dict[UUID, Outcome] = {}
    for _ in range(TRIED_ALONE):
        try:
            return {**await judge([attempt])}
        except Exception as error:  # noqa: BLE001 - it is raised where the attempt came from
            outcomes[attempt.id] = error
    return outcomes


def _raised(outcome: Outcome) -> Judged | None:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
