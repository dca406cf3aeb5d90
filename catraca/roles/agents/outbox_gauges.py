"""Measures how far the relay is behind."""

from prometheus_client import Gauge

from catraca.platform.database import outbox
from catraca.roles.parts import Parts

DEPTH = Gauge(
    "catraca_outbox_depth",
    "Events not published yet; counted up to 100 000.",
    multiprocess_mode="livemostrecent",
)
AGE = Gauge(
    "catraca_outbox_age_seconds",
    "Age of the oldest event not published yet.",
    multiprocess_mode="livemostrecent",
)


async def measure_outbox(parts: Parts) -> None:
    async with parts.database.connection() as db:
        depth, age_seconds = await outbox.backlog(db)
    DEPTH.set(depth)
    AGE.set(age_seconds)
