"""The role that writes notifications and sends web pushes and mail."""

from catraca.roles.consumers import consume
from catraca.roles.parts import Parts
from catraca.roles.runner import Life


class Notifier:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        await consume(self._parts, "notifier", life)
