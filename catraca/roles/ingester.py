"""The role that creates accounts from sign-ups."""

from catraca.roles.consumers import consume
from catraca.roles.parts import Parts
from catraca.roles.runner import Life


class Ingester:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        await consume(self._parts, "ingester", life)
