"""The storms, with their full sizes. Each round raises AssertionError when a promise is broken."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from catraca.roles.parts import Parts
from tests.journeys.instances import instance
from tests.journeys.outages import kill_postgres_under_load
from tests.support import effects
from tests.support.storms import kill_server_among_repeats


@dataclass(frozen=True, slots=True)
class Storm:
    name: str
    rounds: int
    round_seconds: float
    run: Callable[[Parts, int], Awaitable[None]]
    stacks: Sequence[str] = ("embedded", "servers")


async def _idempotency_kill(parts: Parts, number: int) -> None:
    await effects.create_tables(parts.database)
    await kill_server_among_repeats(parts.settings, parts.database, kill_after_answers=number % 4)


async def _postgres_kill(_: Parts, __: int) -> None:
    """A whole `catraca up` of its own, which must also bring PostgreSQL back by itself."""
    async with instance() as here:
        await here.start("--workers", "2")
        await kill_postgres_under_load(here)
        assert await here.stop() == 0


STORMS = {
    storm.name: storm
    for storm in [
        Storm("idempotency-kill", rounds=200, round_seconds=90, run=_idempotency_kill),
        Storm("postgres-kill", rounds=50, round_seconds=120, run=_postgres_kill, stacks=["embedded"]),
    ]
}
