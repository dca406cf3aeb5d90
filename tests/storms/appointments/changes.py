"""Concurrent changes of an agenda: moves, swaps, cancellations, holds, time off and bookings.

Which requests succeed is random. Afterwards the storm checks that nothing overlaps and all answers are true.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.storms.appointments.crowd import Crowd
from tests.storms.appointments.data import (
    SLOT,
    STEP,
    Act,
    Clinic,
    away_act,
    book_act,
    change_act,
    hold_act,
)
from tests.storms.callers import Caller, JsonAnswer, together

WORKERS, ROOMS, HOURS = 2, 2, 12
# Refusals of requests that lost a race.
REFUSED = {"slot_taken", "agenda_taken", "appointment_over", "too_many_holds", "client_busy"}
SHARES = {"reschedule": 6, "cancel": 2, "confirm": 1, "swap": 3, "hold": 4, "book": 3, "time off": 1}
# Clients book their hold after this delay, which may be longer than the hold.
THINKING_SECONDS = (0.0, 1.5)


async def change_everything(crowd: Crowd) -> None:
    """Fill an agenda, then send random concurrent changes to it."""
    clinic = await crowd.clinic(workers=WORKERS, rooms=ROOMS)
    places = [(worker_id, hour * SLOT) for worker_id in clinic.worker_ids for hour in range(HOURS)]
    booked = await together(
        *(
            crowd.ask(book_act(clinic, client, clinic.at(after), worker_id), caller)
            for (worker_id, after), client, caller in zip(places, crowd.clients, crowd.callers, strict=False)
        )
    )
    assert {answer.status for answer in booked} == {201}, f"a full agenda: {booked[0].body}"
    crowd.count("moved, swapped, canceled, held, taken off", len(places))
    shown = [answer.json() for answer in booked]
    acts = [_drawn(crowd, clinic, client, shown) for client in crowd.clients]
    answers = await crowd.burst(acts)
    holds = [
        (act, answer, caller)
        for act, answer, caller in zip(acts, answers, crowd.callers, strict=False)
        if act.verb == "hold" and answer.status == 201
    ]
    answers += await together(*(_think(crowd, clinic, *hold) for hold in holds))
    for act, answer in crowd.answered[-len(answers) :]:
        assert answer.status < 300 or answer.problem()["code"] in REFUSED, f"{act.verb}: {answer.body}"


def _drawn(crowd: Crowd, clinic: Clinic, client: UUID, shown: Sequence[dict[str, Any]]) -> Act:
    """A random request of this client or of the operator; an appointment is changed only by its client."""
    chance = crowd.chance
    verb = chance.choices([*SHARES], weights=[*SHARES.values()])[0]
    after: timedelta = chance.randrange(HOURS * 4) * STEP
    worker_id = chance.choice(clinic.worker_ids)
    one, other = chance.sample(shown, 2)
    one_id, owner = one["appointment_id"], UUID(one["client"]["user_id"])
    if verb == "reschedule":
        return change_act(verb, one_id, owner, starts_at=clinic.at(after), worker_id=str(worker_id))
    if verb in ("cancel", "confirm"):
        return change_act(verb, one_id, owner)
    if verb == "swap":
        other_id = other["appointment_id"]
        return change_act(verb, one_id, clinic.operator_id, role="operator", appointment_id=other_id)
    if verb == "hold":
        return hold_act(clinic, client, clinic.at(after), worker_id)
    if verb == "book":
        return book_act(clinic, client, clinic.at(after), worker_id)
    return away_act(clinic, worker_id, after)


async def _think(crowd: Crowd, clinic: Clinic, act: Act, held: JsonAnswer, caller: Caller) -> JsonAnswer:
    """Book a held slot after a random delay, which may be longer than the hold."""
    await asyncio.sleep(crowd.chance.uniform(*THINKING_SECONDS))
    hold = held.json()
    booking = book_act(clinic, act.who, hold["starts_at"], UUID(hold["worker_id"]), hold_id=hold["hold_id"])
    return await crowd.ask(booking, caller)
