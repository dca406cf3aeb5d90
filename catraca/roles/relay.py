"""The role that publishes the events of the outbox."""

from catraca.platform.bus.relay import Relay as OutboxRelay
from catraca.roles.agents.outbox_gauges import measure_outbox
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of, measure


class Relay:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        relay = OutboxRelay(self._parts.database, self._parts.bus)
        await all_of(relay.run(life.stopping), measure(measure_outbox, self._parts, life))
