"""Failures for the live storm: besides kills, graceful restarts and frozen processes."""

import asyncio
import os
from signal import SIGCONT, SIGTERM

from tests.servers import freeze
from tests.storms.failures import Failures
from tests.storms.processes import ended

# Longer than positions are fresh, with a margin for late listeners.
STILL_SECONDS = (8.0, 9.0)


class LiveFailures(Failures):
    async def _kill_process(self, role: str) -> None:
        """Kill, restart or freeze one process."""
        match role.split(maxsplit=1):
            case ["api", "restarted"]:
                await self._restart_api()
            case ["api", "standing still"]:
                await self._stand_still(self.chance.choice(self.here.apis).pid)
            case ["notifier", "standing still"]:
                office = self.here.office
                places = [place for place, roles in enumerate(office.lineup) if "notifier" in roles]
                await self._stand_still(office.processes[self.chance.choice(places)].pid)
            case _:
                await super()._kill_process(role)

    async def _restart_api(self) -> None:
        async with self._postgres_stands:
            api = self.chance.choice(self.here.apis)
            process = api.fleet.processes[0]
            process.send_signal(SIGTERM)
            assert await ended(process) == 0, self.here.office.complaints()
            await api.start()

    async def _stand_still(self, pid: int) -> None:
        freeze(pid)
        await asyncio.sleep(self.chance.uniform(*STILL_SECONDS))
        os.kill(pid, SIGCONT)
