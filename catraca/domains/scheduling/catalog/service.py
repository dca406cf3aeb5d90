"""Services and rooms."""

from collections.abc import Sequence
from uuid import UUID

from catraca.domains.scheduling.agendas.service import create_worker, get_worker, lock_worker, set_rules
from catraca.domains.scheduling.catalog import store
from catraca.domains.scheduling.catalog.model import NewWorker, Room, Service, ServiceTerms
from catraca.domains.scheduling.freed_time.service import record_changed_hours
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.service import record_audit
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

# Reads without a decision.
find_services = store.find_services
find_rooms = store.find_rooms


async def create_service(db: Db, terms: ServiceTerms, *, by: UUID) -> Service:
    service = Service(id=ServiceId(new_id()), terms=terms)
    await store.insert_service(db, service.id, terms)
    await record_audit(db, "service.created", service.id, by=by)
    return service


async def open_service(
    db: Db, service_id: ServiceId, terms: ServiceTerms, workers: Sequence[NewWorker], *, by: UUID
) -> bool:
    """Create a service and its workers; False if the service exists. Safe to repeat, also at once."""
    if not await store.insert_service(db, service_id, terms):
        return False
    for new in workers:
        worker = await create_worker(
            db, name=new.name, time_zone=new.time_zone, user_id=None, holidays=None, by=by
        )
        await set_rules(db, worker.id, new.rules, by=by)
        await set_services(db, worker.id, [service_id], by=by)
    return True


async def change_service(db: Db, service_id: ServiceId, terms: ServiceTerms, *, by: UUID) -> Service:
    """The new terms are for later bookings; booked appointments stay as they are."""
    if not await store.update_service(db, service_id, terms):
        raise NotFound
    await record_audit(db, "service.changed", service_id, by=by)
    return Service(id=service_id, terms=terms)


async def get_service(db: Db, service_id: ServiceId) -> Service:
    service = await store.read_service(db, service_id)
    if service is None:
        raise NotFound
    return service


async def set_services(
    db: Db, worker_id: SubjectId, service_ids: Sequence[ServiceId], *, by: UUID
) -> list[ServiceId]:
    """Replace the worker's services. Booked appointments stay."""
    worker = await lock_worker(db, worker_id)
    known = await store.replace_services(db, worker.no, service_ids)
    if len(known) < len(set(service_ids)):
        raise NotFound
    await record_audit(db, "worker.services_set", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return known


async def get_services_of(db: Db, worker_id: SubjectId) -> list[ServiceId]:
    worker = await get_worker(db, worker_id)
    return await store.read_services_of(db, worker.no)


async def set_rooms(
    db: Db, service_id: ServiceId, room_ids: Sequence[SubjectId], *, by: UUID
) -> list[SubjectId]:
    """Replace the service's rooms: a booking takes one of them. Without rooms, a booking takes none."""
    if not await store.lock_service(db, service_id):
        raise NotFound
    known = await store.replace_rooms(db, service_id, room_ids)
    if len(known) < len(set(room_ids)):
        raise NotFound
    await record_audit(db, "service.rooms_set", service_id, by=by)
    return known


async def get_rooms_of(db: Db, service_id: ServiceId) -> list[SubjectId]:
    await get_service(db, service_id)
    return await store.read_rooms_of(db, service_id)


async def create_room(db: Db, *, name: str, by: UUID) -> Room:
    room = await store.insert_room(db, SubjectId(new_id()), name=name)
    await record_audit(db, "room.created", room.id, by=by)
    return room


async def get_room(db: Db, room_id: SubjectId) -> Room:
    room = await store.read_room(db, room_id)
    if room is None:
        raise NotFound
    return room


async def change_room(db: Db, room_id: SubjectId, *, name: str, retired: bool, by: UUID) -> Room:
    room = await store.update_room(db, room_id, name=name, retired=retired)
    if room is None:
        raise NotFound
    await record_audit(db, "room.changed", room_id, by=by)
    return room
