"""A service with everybody who does it, at once: how a clinic is begun."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.scheduling.model.agendas import ServiceId, Terms
from catraca.domains.scheduling.model.hours import Rule
from catraca.domains.scheduling.service import setting_up
from catraca.domains.scheduling.store import agendas as store
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True)
class NewWorker:
    name: str
    time_zone: str
    rules: Sequence[Rule]


async def open_service(
    db: Db, service_id: ServiceId, terms: Terms, workers: Sequence[NewWorker], *, by: UUID
) -> bool:
    """Whether it was not there yet. Safe to repeat, and for many at once: what is there stays as it is."""
    if not await store.insert_service_if_new(db, service_id, terms):
        return False
    for new in workers:
        worker = await setting_up.create_worker(
            db, name=new.name, time_zone=new.time_zone, user_id=None, holidays=None, by=by
        )
        await setting_up.set_rules(db, worker.id, new.rules, by=by)
        await setting_up.set_services(db, worker.id, [service_id], by=by)
    return True
