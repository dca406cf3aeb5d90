"""The role that tidies: what has passed its retention goes, a bounded amount at a time."""

import asyncio
from contextlib import suppress

import structlog

from catraca.domains.people.jobs import prune_password_links
from catraca.platform.errors import Refusal
from catraca.platform.idempotency import prune_idempotency_keys
from catraca.roles.parts import Parts
from catraca.roles.runner import Life

log = structlog.get_logger()

SWEEP_SECONDS = 60.0


class Housekeeper:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        while not life.stopping.is_set():
            try:
                await self.sweep()
            except Refusal as refusal:  # the database is away: the next sweep finds the same work
                log.warning("sweep_postponed", code=refusal.code)
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_SECONDS):
                    await life.stopping.wait()

    async def sweep(self) -> None:
        """One round of every duty. Safe at any number of housekeepers: rows are taken with SKIP LOCKED."""
        retention = self._parts.settings.idempotency_retention
        pruned = await self._parts.database.run(lambda db: prune_idempotency_keys(db, older_than=retention))
        if pruned:
            log.info("pruned", what="idempotency_keys", count=pruned)
        await self._parts.database.run(prune_password_links)
