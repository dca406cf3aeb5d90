"""The role that sends what the outbox holds, and tells how far behind it is."""

from prometheus_client import Gauge

from catraca.platform.bus.relay import Relay as Sender
from catraca.platform.database import outbox
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of

LOOK_SECONDS = 5.0

DEPTH = Gauge(
    "catraca_outbox_depth", "Events not sent yet; counted up to 100 000.", multiprocess_mode="livemostrecent"
)
AGE = Gauge(
    "catraca_outbox_age_seconds", "Age of the oldest event not sent yet.", multiprocess_mode="livemostrecent"
)


class Relay:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        sender = Sender(self._parts.database, self._parts.bus)
        await all_of(sender.run(life.stopping), self._watch(life))

    async def _watch(self, life: Life) -> None:
        while not life.stopping.is_set():
            try:
                async with self._parts.database.connection() as db:
                    depth, age_seconds = await outbox.backlog(db)
            except Refusal:
                pass  # the relay itself says so
            else:
                DEPTH.set(depth)
                AGE.set(age_seconds)
            await within(LOOK_SECONDS, life.stopping)
