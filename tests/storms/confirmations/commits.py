"""Deaths and concurrent requests around the COMMIT of a confirmed ride."""

import asyncio
from collections.abc import Sequence
from typing import Final

from catraca.platform.clock import now
from catraca.platform.ids import token_digest
from tests.servers import until
from tests.storms.callers import Caller, JsonAnswer, calling, crowd, together
from tests.storms.commit_gate import CommitGate, Stop, Window
from tests.storms.confirmations.checks import Answers, broken_by_question
from tests.storms.confirmations.data import (
    PATIENT_SECONDS,
    Question,
    ask_in,
    ask_request,
    confirm_request,
    settle_village,
)
from tests.storms.fleet import ApiProcess, StormFleet

OTHERS: Final = 8
# Long enough to confirm in time, and short enough to wait for the expiry.
SHORT_SECONDS: Final = 4


async def die_around_confirm(here: StormFleet, api: ApiProcess, gate: CommitGate) -> str:
    """Killed before COMMIT: another client creates the ride. Killed after it: the ride exists."""
    await _die_in("before", here, api, gate)
    await api.start()
    await _die_in("after", here, api, gate)
    await api.start()
    return "killed before and after the COMMIT: one ride, named in all answers"


async def _die_in(window: Window, here: StormFleet, api: ApiProcess, gate: CommitGate) -> None:
    village = await settle_village(here.database, ttl_seconds=PATIENT_SECONDS)
    async with crowd(here.ports, here.ledger, OTHERS) as others, calling([api.port]) as victim:
        question = await ask_in(others[0], village)
        winning, stop = await _confirm_up_to(window, question, victim, gate)
        # Before its COMMIT the others wait for the transaction's end.
        asking = [asyncio.create_task(other.ask(confirm_request(question))) for other in others]
        await api.kill()
        stop.lose()
        assert await winning is None, "the killed API answered"
        answers = Answers(await together(*asking))
    made = sum(answer.status == 201 for answer in answers.confirmations)
    assert made == (1 if window == "before" else 0), f"{made} callers got 201"
    await _judge(here, question, answers)


async def come_during_commit(here: StormFleet, api: ApiProcess, gate: CommitGate) -> str:
    """While the ride is being committed, others confirm after the expiry, and phones request again.

    The first confirmation was in time, so no other caller may be refused as too late or get a new question.
    """
    await _come(here, api, gate, ttl_seconds=SHORT_SECONDS, asks=False)
    await _come(here, api, gate, ttl_seconds=PATIENT_SECONDS, asks=True)
    return "late confirmations and repeated requests before the COMMIT: all name the ride"


async def _come(here: StormFleet, api: ApiProcess, gate: CommitGate, *, ttl_seconds: int, asks: bool) -> None:
    village = await settle_village(here.database, ttl_seconds=ttl_seconds)
    async with crowd(here.ports, here.ledger, OTHERS) as others, calling([api.port]) as first:
        question = await ask_in(others[0], village)
        message = ask_request(question) if asks else confirm_request(question)
        winning, stop = await _confirm_up_to("before", question, first, gate)
        if not asks:
            await until(lambda: now() > question.expires_at, seconds=2 * SHORT_SECONDS)
        coming = [asyncio.create_task(other.ask(message)) for other in others]
        await until(lambda: _wait_or_are_answered(here, coming))
        stop.release()
        made, answers = await winning, await together(*coming)
    assert made is not None, "the creator of the ride got no answer"
    await _judge(here, question, Answers([made], answers) if asks else Answers([made, *answers]))


async def _wait_or_are_answered(here: StormFleet, coming: Sequence[asyncio.Task[JsonAnswer]]) -> bool:
    async with here.database.connection() as db:
        waiting = await db.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    return waiting + sum(task.done() for task in coming) >= len(coming)


async def _confirm_up_to(
    window: Window, question: Question, caller: Caller, gate: CommitGate
) -> tuple[asyncio.Task[JsonAnswer | None], Stop]:
    stop = gate.stop_commit(window, of=token_digest(question.token))
    confirming = asyncio.create_task(caller.ask_once(confirm_request(question)))
    await stop.reached_by(confirming)
    return confirming, stop


async def _judge(here: StormFleet, question: Question, answers: Answers) -> None:
    ride_id = answers.ride_id()
    assert ride_id is not None, "no confirmation was in time"
    answers.count_requests(question, ride_id)
    async with here.database.connection() as db:
        broken = await broken_by_question(db, question, answers, ride_id)
    assert not broken, "\n".join(broken)
