"""Rolling restarts: two processes of each role, replaced one after another while users are created."""

import asyncio
from signal import SIGKILL, SIGTERM
from uuid import uuid4

from catraca.domains import people
from catraca.platform.database import Database
from tests.servers import until
from tests.storms.checks import NOTHING_LEFT, failed_checks
from tests.storms.processes import Fleet, stop
from tests.storms.servers import StormServers, messages_left

# Two processes of each.
LINEUP = (("relay",), ("dispatcher", "notifier"), ("housekeeper",)) * 2
WRITERS = 4
WRITER_PAUSE_SECONDS = 0.02
# Between two restarts this many more users must appear in the audit log.
PROGRESS = 20
QUIET_SECONDS = 60

CHECKS = {
    "new users do not have exactly one line in the audit log": """
        SELECT * FROM (SELECT id::text AS id FROM users) u
        FULL JOIN (
            SELECT subject_id AS id, count(*) AS lines FROM audit_log
            WHERE action = 'user.created' GROUP BY 1) a
            USING (id)
        WHERE u.id IS NULL OR lines IS DISTINCT FROM 1""",
    **NOTHING_LEFT,
}


async def restart_in_turn(servers: StormServers, *, passes: int) -> None:
    """Replace every process in turn, by SIGTERM or SIGKILL: no event is lost, repeated or dead-lettered."""
    async with servers.processes(LINEUP, {}) as (fleet, bus):
        writers = [asyncio.create_task(_create_users(fleet.database)) for _ in range(WRITERS)]
        try:
            for number in range(passes * len(fleet.processes)):
                await _until_progress(fleet)
                turn, place = divmod(number, len(fleet.processes))
                await fleet.replace(place, SIGTERM if (place + turn) % 2 == 0 else SIGKILL)
            await _until_progress(fleet)
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)

        async def failed() -> list[str]:
            async with fleet.database.connection() as db:
                return [*await failed_checks(db, CHECKS), *await messages_left(bus)]

        async def is_settled() -> bool:
            return not await failed()

        try:
            await until(is_settled, seconds=QUIET_SECONDS)
        except TimeoutError:
            raise AssertionError("\n".join(await failed())) from None
        await stop(*fleet.processes)
        assert not (wrong := await failed()), "\n".join(wrong)


async def _create_users(database: Database) -> None:
    while True:
        await database.run(
            lambda db: people.ensure_user(db, uuid4(), roles=["passenger"], driver_approval="automatic")
        )
        await asyncio.sleep(WRITER_PAUSE_SECONDS)


async def _until_progress(fleet: Fleet) -> None:
    async def count() -> int:
        async with fleet.database.connection() as db:
            return await db.fetchval("SELECT count(*) FROM audit_log WHERE action = 'user.created'")

    wanted = await count() + PROGRESS

    async def has_progressed() -> bool:
        return await count() >= wanted

    try:
        await until(has_progressed, seconds=QUIET_SECONDS)
    except TimeoutError:
        raise AssertionError("no progress\n" + fleet.complaints()) from None
