"""The storms, with their full sizes. Each round raises AssertionError when a promise is broken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from catraca.roles.parts import Parts
from tests.support import effects
from tests.support.storms import kill_server_among_repeats


@dataclass(frozen=True, slots=True)
class Storm:
    name: str
    rounds: int
    round_seconds: float
    run: Callable[[Parts, int], Awaitable[None]]


async def _idempotency_kill(parts: Parts, number: int) -> None:
    await effects.create_tables(parts.database)
    await kill_server_among_repeats(parts.settings, parts.database, kill_after_answers=number % 4)


STORMS = {
    storm.name: storm
    for storm in [
        Storm("idempotency-kill", rounds=200, round_seconds=90, run=_idempotency_kill),
    ]
}
