"""Everything that can end an offer at one instant: accept, expiry, refusal, cancellation, a second offer.

Each round is another ride, and many run concurrently. All requests aim at the same instant with a random
jitter; sometimes one is sent earlier, so that every outcome occurs.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from uuid import UUID

from catraca.platform.clock import monotonic_seconds, now
from catraca.roles.runner import all_of
from tests.storms.callers import Caller, JsonAnswer, crowd, together, token_of
from tests.storms.fleet import StormFleet
from tests.storms.rides.data import Offered, act, offer, offer_new_ride, reject, tries_of
from tests.storms.rides.ledger import Try, code_of

SIDE_BY_SIDE = 20
# Jitter around the instant; a request sent ahead is earlier still.
JITTER_SECONDS = (-0.08, 0.02)
AHEAD_SECONDS = 0.12
TTL_SECONDS = 0.4
SECOND_TTL_SECONDS = 2.0
PATIENCE_SECONDS = 0.5
CONTEST = "accept, expiry, cancel, second offer"
REFUSAL = "refusal, accept, expiry"
GIVING_UP = "giving up, cancel, accept by the earlier loser"
# Among this many races of a kind, each of these outcomes must occur.
SEEN_AMONG = 250
OUTCOMES = {
    CONTEST: {
        "ACCEPTED by the first",
        "ACCEPTED by the first > CANCELED",
        "ACCEPTED by another",
        "SEARCHING",
        "SEARCHING > CANCELED",
        "SEARCHING > OFFERED > ACCEPTED by another",
        "CANCELED",
    },
    REFUSAL: {"ACCEPTED by the first", "SEARCHING"},
    GIVING_UP: {
        "ACCEPTED by the first > CANCELED",
        "ACCEPTED by the first > SEARCHING > CANCELED",
        "ACCEPTED by the first > SEARCHING > OFFERED > ACCEPTED by another",
    },
}
PATHS = (
    "SELECT ride_id, string_agg(to_status || CASE WHEN to_status = 'ACCEPTED' THEN"
    "   ' by ' || (SELECT CASE count(*) WHEN 0 THEN 'the first' ELSE 'another' END FROM ride_offers o"
    "     JOIN ride_offers earlier ON earlier.ride_id = o.ride_id AND earlier.offered_at < o.offered_at"
    "     WHERE o.ride_id = e.ride_id AND o.driver_id = e.actor_id AND o.round = e.round"
    "       AND o.response = 'ACCEPTED') ELSE '' END, ' > ' ORDER BY seq) AS path"
    " FROM ride_events e WHERE ride_id = ANY ($1::uuid[]) AND seq > 2 GROUP BY ride_id"
)
# Ends of offers and rides that are known from the answers too.
FACTS = {
    "canceled": "SELECT ride_id FROM ride_events WHERE to_status = 'CANCELED' AND actor = 'passenger'",
    "given up": "SELECT ride_id FROM ride_events WHERE news = 'ride.reassigning'",
    "rejected": "SELECT ride_id FROM ride_offers WHERE response = 'REJECTED'",
}


@dataclass
class Races:
    here: StormFleet
    chance: random.Random
    # The rides of each kind of race, and those for which an act was answered with 200.
    rides: dict[str, list[UUID]] = field(default_factory=lambda: defaultdict(list))
    done: dict[str, set[UUID]] = field(default_factory=lambda: {what: set() for what in FACTS})

    async def run(self, rounds: int) -> None:
        """Run all rounds, some concurrently, each with its own callers."""
        numbers = iter(range(rounds))
        async with crowd(self.here.ports, self.here.ledger, 4 * SIDE_BY_SIDE) as callers:
            await all_of(*(self._run_some(numbers, callers[4 * n : 4 * n + 4]) for n in range(SIDE_BY_SIDE)))

    async def _run_some(self, numbers: Iterator[int], callers: Sequence[Caller]) -> None:
        races = (self._contest, self._contest, self._refusal, self._giving_up)
        for number in numbers:
            await races[number % len(races)](callers, await self.here.new_drivers(3))

    async def _contest(self, callers: Sequence[Caller], drivers: Sequence[UUID]) -> None:
        """Accept, cancellation, a second offer and expiry at the same instant."""
        offered = await offer_new_ride(callers[0], drivers[:1], ttl_seconds=TTL_SECONDS)
        self.rides[CONTEST].append(offered.ride_id)
        acts = [lambda: callers[1].accept(offered.tries[0])]
        if self.chance.random() < 0.5:
            acts.append(lambda: self._cancel(callers[2], offered))
        if self.chance.random() < 0.7:
            acts.append(lambda: self._offer_and_accept(callers[3], offered.ride_id, drivers[1]))
        await self._all_at(offered.expires_at, acts)

    async def _refusal(self, callers: Sequence[Caller], drivers: Sequence[UUID]) -> None:
        """Of two drivers with an offer one rejects and also accepts; the other may accept."""
        offered = await offer_new_ride(callers[0], drivers[:2], ttl_seconds=TTL_SECONDS)
        self.rides[REFUSAL].append(offered.ride_id)
        fickle, other = offered.tries
        acts = [
            lambda: self._reject(callers[1], fickle),
            lambda: callers[2].accept(fickle),
            *([lambda: callers[3].accept(other)] if self.chance.random() < 0.5 else []),
        ]
        await self._all_at(offered.expires_at, acts)

    async def _giving_up(self, callers: Sequence[Caller], drivers: Sequence[UUID]) -> None:
        """The winner gives the ride up; the loser gets a new offer and accepts with the same key."""
        offered = await offer_new_ride(callers[0], drivers[:2], ttl_seconds=60)
        self.rides[GIVING_UP].append(offered.ride_id)
        one, other = offered.tries
        answers = await together(callers[1].accept(one), callers[2].accept(other))
        winner, loser = (one, other) if answers[0].status == 200 else (other, one)
        acts = [
            lambda: self._give_up(callers[1], winner),
            lambda: self._offer_and_accept(callers[2], loser.ride_id, loser.driver_id, key=loser.key),
            *([lambda: self._cancel(callers[3], offered)] if self.chance.random() < 0.4 else []),
        ]
        await self._all_at(now(), acts)
        # A repeat gets the first answer, whatever the ride's present state.
        await callers[1].accept(winner)

    async def _all_at(self, instant: datetime, acts: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Run all at about this instant, with one of them, or expiry, slightly ahead."""
        ahead = self.chance.choice([None, None, *range(-1, len(acts))])
        delays = [self.chance.uniform(*JITTER_SECONDS) for _ in acts]
        for number in range(len(acts)):
            if ahead == -1:
                delays[number] += AHEAD_SECONDS
            elif ahead == number:
                delays[number] -= AHEAD_SECONDS

        async def run(delay: float, do: Callable[[], Awaitable[object]]) -> None:
            await asyncio.sleep((instant - now()).total_seconds() + delay)
            await do()

        await all_of(*(run(delay, do) for delay, do in zip(delays, acts, strict=True)))

    async def _cancel(self, caller: Caller, offered: Offered) -> None:
        token = token_of("passenger", offered.passenger_id)
        answer = await act(caller, offered.ride_id, "cancel", token=token, reason="changed_plans")
        self._note("canceled", offered.ride_id, answer)

    async def _give_up(self, caller: Caller, winner: Try) -> None:
        token = token_of("driver", winner.driver_id)
        answer = await act(caller, winner.ride_id, "cancel", token=token, reason="too_far")
        self._note("given up", winner.ride_id, answer)

    async def _reject(self, caller: Caller, tried: Try) -> None:
        self._note("rejected", tried.ride_id, await reject(caller, tried))

    def _note(self, what: str, ride_id: UUID, answer: JsonAnswer) -> None:
        assert answer.status in (200, 409, 410), answer.body
        if answer.status == 200:
            self.done[what].add(ride_id)

    async def _offer_and_accept(
        self, caller: Caller, ride_id: UUID, driver_id: UUID, *, key: str | None = None
    ) -> None:
        """Offer to a new driver, or again to the same one with the same key once the ride is free."""
        until_seconds = monotonic_seconds() + (0 if key is None else PATIENCE_SECONDS)
        while True:
            made = await offer(caller, ride_id, [driver_id], ttl_seconds=SECOND_TTL_SECONDS)
            if made.status == 201 or monotonic_seconds() > until_seconds:
                break
        assert made.status in (201, 409), made.body
        for tried in tries_of(ride_id, made):
            await caller.accept(Try(ride_id, driver_id, tried.offer_id, key or tried.key))

    async def broken(self) -> list[str]:
        """Differences between answers about refusals, cancellations and withdrawals and the database."""
        everywhere = {ride_id for rides in self.rides.values() for ride_id in rides}
        broken: list[str] = []
        async with self.here.database.connection() as db:
            for what, query in FACTS.items():
                found = {row["ride_id"] for row in await db.fetch(query)} & everywhere
                if differ := found ^ self.done[what]:
                    broken.append(f"{len(differ)} rides differ from the answers in being {what}: {differ}")
        return broken

    async def report(self) -> list[str]:
        """Counts of the paths of status changes after the first offer, by kind of race."""
        lines: list[str] = []
        async with self.here.database.connection() as db:
            for kind, rides in self.rides.items():
                rows = await db.fetch(PATHS, rides)
                paths = Counter(row["path"] for row in rows)
                ways = "; ".join(f"{count} x {path}" for path, count in paths.most_common())
                lines.append(f"{kind}: {ways}")
                if len(rides) >= SEEN_AMONG:
                    assert paths.keys() >= OUTCOMES[kind], f"never seen: {OUTCOMES[kind] - paths.keys()}"
        return lines


async def race(here: StormFleet, *, rounds: int, seed: int) -> str:
    """Run this many rides; raises AssertionError when rows and answers do not agree."""
    races = Races(here, random.Random(seed))
    before = len(here.ledger.answers)
    began = monotonic_seconds()
    await races.run(rounds)
    seconds = monotonic_seconds() - began
    await here.settle()
    assert not (broken := await races.broken()), "\n".join(broken)
    paths = await races.report()
    codes = Counter(map(code_of, islice(here.ledger.answers.values(), before, None)))
    return "\n  ".join([f"seed {seed}: {rounds} rounds in {seconds:.1f} s; {dict(codes)}", *paths])
