"""Hundreds of clients confirm one token while an API and servers fail: one ride, named in every answer.

`make test-all` runs a hundredth of it, `make prove` all; the result is a sentence with what was counted.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from catraca.platform.clock import monotonic_seconds, now
from tests.servers import until
from tests.storms.callers import Caller, JsonAnswer, crowd, together
from tests.storms.checks import failed_checks, listed
from tests.storms.confirmations.checks import AT_REST, CHECKS, Answers, broken_by_question
from tests.storms.confirmations.data import (
    BRIEF_SECONDS,
    PATIENT_SECONDS,
    Question,
    Village,
    ask_in,
    ask_request,
    confirm_request,
    settle_village,
)
from tests.storms.confirmations.plans import Plan
from tests.storms.fleet import StormFleet
from tests.storms.rides.accepts import done

CLIENTS = 200
# This many clients confirm again after the burst, and once more after the expiry.
REPEATS = 20
# Confirmations around the expiry are sent this much earlier or later.
JITTER_SECONDS = (-0.1, 0.03)
# Requests of other phones: most are sent at once, some a little later.
PHONE_SECONDS = (-0.1, 0.05)
CLOSED_SECONDS = 60
RETRY_SECONDS = 0.05


@dataclass
class Confirming:
    here: StormFleet
    chance: random.Random
    patient: Village
    hasty: Village
    clients: int = CLIENTS
    seen: Counter[str] = field(default_factory=Counter)

    async def run(self, plan: Plan) -> None:
        """Run one round; raises AssertionError when a check fails."""
        size = 1 + plan.phones + self.clients
        async with crowd(self.here.ports, self.here.ledger, size) as (first, *others):
            await done(plan.weather.before, self.here)
            question = await ask_in(first, self.hasty if plan.brief else self.patient)
            phones, clients = others[: plan.phones], others[plan.phones :]
            # At least one phone requests before the first confirmation.
            asked_before = [await phone.ask(ask_request(question)) for phone in phones[:1]]
            answers = await self._burst(plan, question, phones, clients)
            answers.requests += asked_before
            await done(plan.weather.mend, self.here)
            await self.here.until_redis_is_back()
            answers.confirmations += await self._confirm_again(clients, question)
            if plan.brief:
                await until(lambda: now() > question.expires_at, seconds=2 * BRIEF_SECONDS)
                answers.confirmations += await self._confirm_again(clients, question)
            await self._judge(plan, question, answers, first)

    async def _burst(
        self, plan: Plan, question: Question, phones: Sequence[Caller], clients: Sequence[Caller]
    ) -> Answers:
        """Send all requests at once while a process is killed; callers without an answer repeat."""
        ends_in_seconds = (question.expires_at - now()).total_seconds()
        begin_seconds = ends_in_seconds + JITTER_SECONDS[0] if plan.at_the_end else 0
        width_seconds = JITTER_SECONDS[1] - JITTER_SECONDS[0] if plan.at_the_end else 0
        # Most phones send at once, ahead of the confirmations, so that they race.
        asking = [
            asyncio.create_task(
                _send(phone, ask_request(question), after_seconds=self.chance.uniform(*PHONE_SECONDS))
            )
            for phone in phones
        ]
        confirming = [
            asyncio.create_task(
                _send(
                    client,
                    confirm_request(question, repeats_ride=self.chance.random() < plan.repeating_share),
                    after_seconds=begin_seconds + self.chance.uniform(0, width_seconds),
                )
            )
            for client in clients
        ]
        _, *answers = await together(self._break(plan, begin_seconds, confirming), *asking, *confirming)
        return Answers(answers[len(asking) :], answers[: len(asking)])

    async def _break(
        self, plan: Plan, begin_seconds: float, confirming: Sequence[asyncio.Task[JsonAnswer]]
    ) -> None:
        """Kill the API at its time, run the planned failure, and start the API again.

        One after the other, because an API that starts needs PostgreSQL.
        """
        await asyncio.sleep(begin_seconds + (0 if plan.after_answers else plan.delay_seconds))
        while sum(task.done() for task in confirming) < plan.after_answers:
            left = [task for task in confirming if not task.done()]
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        await plan.victim.kill()
        await done(plan.weather.amid, self.here)
        await plan.victim.start()

    async def _confirm_again(self, clients: Sequence[Caller], question: Question) -> list[JsonAnswer]:
        some = self.chance.sample(clients, min(REPEATS, len(clients)))
        return await together(*(client.ask(confirm_request(question)) for client in some))

    async def _judge(self, plan: Plan, question: Question, answers: Answers, first: Caller) -> None:
        ride_id = answers.ride_id()
        assert ride_id is not None or plan.brief, "refused as too late before the expiry"
        self.seen.update(answers.count_requests(question, ride_id))
        async with self.here.database.connection() as db:
            broken = await broken_by_question(db, question, answers, ride_id)
        assert not broken, "\n".join(broken)
        self.seen[plan.weather.name] += 1
        if ride_id is None:
            self.seen["all confirmations too late"] += 1
            again = await ask_in(first, self.hasty, question.passenger_id)
            assert again.token != question.token, "a new request got the old token"
        elif plan.brief:
            self.seen["repeated after the expiry"] += 1
        if ride_id is not None and not any(answer.status == 201 for answer in answers.confirmations):
            self.seen["ride without an answer to its creator"] += 1

    async def settle(self) -> None:
        """Wait until every confirmation is used or expired, then run the checks."""

        async def are_closed() -> bool:
            async with self.here.database.connection() as db:
                return not await failed_checks(db, AT_REST)

        await until(are_closed, seconds=CLOSED_SECONDS)
        async with self.here.database.connection() as db:
            broken = await failed_checks(db, CHECKS)
        assert not broken, "\n".join(broken)


async def _send(caller: Caller, message: bytes, *, after_seconds: float) -> JsonAnswer:
    """Send after this time, and again while the passenger has too many requests under way."""
    if after_seconds > 0:
        await asyncio.sleep(after_seconds)
    while (answer := await caller.ask(message)).status == HTTPStatus.TOO_MANY_REQUESTS:  # noqa: ASYNC110
        await asyncio.sleep(RETRY_SECONDS)
    return answer


async def storm_confirmations(
    here: StormFleet, *, rounds: int, seed: int, clients: int = CLIENTS, plans: Sequence[Plan] = ()
) -> str:
    """Run the given plans, and random ones after them, `rounds` in all."""
    chance, began, before = random.Random(seed), monotonic_seconds(), Counter(here.ledger.counts)
    patient, hasty = [
        await settle_village(here.database, ttl_seconds=seconds)
        for seconds in (PATIENT_SECONDS, BRIEF_SECONDS)
    ]
    storm = Confirming(here, chance, patient, hasty, clients)
    drawn = [Plan.draw(here, chance, clients=clients) for _ in range(rounds - len(plans))]
    for plan in [*plans, *drawn]:
        await storm.run(plan)
    await storm.settle()
    seconds, counts = monotonic_seconds() - began, here.ledger.counts - before
    return (
        f"seed {seed}: {rounds} rounds of {clients} confirms in {seconds:.0f} s, an API killed amid each;"
        f" {listed(storm.seen)}; answers: {listed(counts)}"
    )
