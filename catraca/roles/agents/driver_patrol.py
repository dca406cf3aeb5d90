"""Keeps the presence of online drivers and their index in Redis correct."""

from catraca.domains.location.presence.jobs import Patrol
from catraca.roles.domain_rules import patrol_rules
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of, repeat

# How soon an emptied Redis is noticed.
REBUILD_SECONDS = 1.0


class DriverPatrol:
    def __init__(self, parts: Parts) -> None:
        settings = parts.settings.location
        # Twice in each interval, so that no position is late by more than half of it.
        self._every = settings.position_interval / 2
        self._patrol = Patrol(
            parts.redis, parts.database.run, rules=patrol_rules(settings), interval=self._every
        )

    async def run(self, life: Life) -> None:
        await all_of(
            repeat(self._patrol.rebuild_index, REBUILD_SECONDS, life),
            repeat(self._patrol.run, self._every.total_seconds(), life),
        )
