"""Queue depths and dead letters."""

import asyncio
from collections.abc import Mapping

import asyncpg

from catraca.domains.dead_letters.letters.store import count_waiting
from catraca.events import TOPOLOGY
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.bus.topology import DEAD_LETTER_QUEUE
from catraca.platform.bus.transport import BusAway
from catraca.platform.database import Database, DatabaseLimits
from catraca.platform.errors import Refusal
from catraca.platform.server_info import Unreachable, ask_queues
from catraca.roles.doctor.findings import Finding, ok, warning
from catraca.settings import Settings

LIMITS = DatabaseLimits(connections=1, acquire_seconds=1.5, connect_seconds=1.5, statement_seconds=1.5)
MANY = 10_000

Depths = Mapping[str, int | None]


async def check_bus(settings: Settings) -> list[Finding]:
    """A server that is unreachable or empty has no finding here: its own check has one."""
    found = await asyncio.gather(_in_rabbitmq(settings), _in_postgres(settings))
    return [finding for findings in found for finding in findings]


async def _in_rabbitmq(settings: Settings) -> list[Finding]:
    if settings.servers.amqp_url is None:
        return []
    try:
        return [
            judge_queues(
                await ask_queues(settings.servers.amqp_url, [queue.name for queue in TOPOLOGY.queues])
            )
        ]
    except Unreachable:
        return []


async def _in_postgres(settings: Settings) -> list[Finding]:
    if settings.servers.database_url is None:
        return []
    found: list[Finding] = []
    database = await Database.open(settings.servers.database_url, limits=LIMITS)
    try:
        if settings.servers.amqp_url is None:
            found.append(judge_queues(await PostgresBus(database, TOPOLOGY).depths()))
        async with database.connection() as db:
            found.append(judge_dead_letters(await count_waiting(db)))
    except (BusAway, Refusal, asyncpg.UndefinedTableError):
        return []
    finally:
        await database.close()
    return found


def judge_queues(depths: Depths) -> Finding:
    name = "Queues"
    if missing := [queue for queue, depth in depths.items() if depth is None]:
        remedy = "Start `catraca serve relay`, which declares them; until then, events wait in the outbox."
        return warning(name, f"missing: {', '.join(missing)}", remedy)
    waiting = {queue: depth for queue, depth in depths.items() if depth}
    found = f"waiting: {', '.join(f'{depth} in {queue}' for queue, depth in waiting.items())}"
    # Dead letters are stored at once while the housekeeper runs.
    late = [queue for queue, depth in waiting.items() if depth > MANY or queue == DEAD_LETTER_QUEUE]
    if late:
        roles = " ".join(sorted({TOPOLOGY.queue(queue).role for queue in late}))
        return warning(name, found, f"Check that `catraca serve {roles}` runs, and read its log.")
    return ok(name, found if waiting else "all empty")


def judge_dead_letters(counts: Mapping[tuple[str, str], int]) -> Finding:
    name = "Dead letters"
    if not counts:
        return ok(name, "none")
    found = ", ".join(f"{count} of {queue} ({reason})" for (queue, reason), count in counts.items())
    return warning(
        name,
        found,
        "Find the cause in the log lines `message_dead` of that queue and reason and fix it; then replay or"
        " discard them with `catraca dead-letters`. They are kept for CATRACA_DEAD_LETTER_RETENTION.",
    )
