"""Looks after the drivers at work: their positions, silence, idleness and communities."""

from catraca.domains.location.jobs import Keeper
from catraca.roles.domain_rules import location_rhythm
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of, repeat

# How soon an emptied Redis is noticed.
FILL_SECONDS = 1.0


class DriverPatrol:
    def __init__(self, parts: Parts) -> None:
        settings = parts.settings.location
        # Twice in each interval, so that no position is late by more than half of it.
        self._every = settings.position_interval / 2
        self._keeper = Keeper(
            parts.redis, parts.database.run, rhythm=location_rhythm(settings), patrol_interval=self._every
        )

    async def run(self, life: Life) -> None:
        await all_of(
            repeat(self._keeper.fill_map, FILL_SECONDS, life),
            repeat(self._keeper.patrol, self._every.total_seconds(), life),
        )
