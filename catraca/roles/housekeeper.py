"""The role that prunes, measures queues, and consumes queues without a deadline: audit log, dead letters."""

from catraca.roles.agents.queue_gauges import measure_dead_letters, measure_queues
from catraca.roles.agents.retention_pruner import RetentionPruner
from catraca.roles.consumers import consume
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of, measure


class Housekeeper:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        await all_of(
            consume(self._parts, "housekeeper", life),
            RetentionPruner(self._parts).run(life),
            measure(measure_queues, self._parts, life),
            measure(measure_dead_letters, self._parts, life),
        )
