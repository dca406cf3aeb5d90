"""The role that publishes the events of the outbox."""

from catraca.platform.bus.relay import Relay as OutboxRelay
from catraca.roles.agents.outbox_gauges import OutboxGauges
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of


class Relay:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        relay = OutboxRelay(self._parts.database, self._parts.bus)
        await all_of(relay.run(life.stopping), OutboxGauges(self._parts).run(life))
