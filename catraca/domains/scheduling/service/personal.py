"""What is kept of people with their appointments, as clients and as workers."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from catraca.domains.people import PersonalData, UserId
from catraca.domains.scheduling.errors import AppointmentBegun
from catraca.domains.scheduling.model.agendas import Appointment, Worker
from catraca.domains.scheduling.model.waiting import Entry
from catraca.domains.scheduling.service import freeing, holding, moving
from catraca.domains.scheduling.store import agendas, claims
from catraca.domains.scheduling.store import personal as store
from catraca.domains.scheduling.store import waiting as waiting_store
from catraca.platform.database import Db

APPOINTMENTS_TOLD = 1000
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


async def _export(db: Db, user_id: UserId) -> object:
    """The person's appointments, and what is said of them if they are a worker. Clients' are not theirs."""
    found = await store.appointments_of(db, user_id, limit=APPOINTMENTS_TOLD)
    waits = await waiting_store.find_entries(
        db, client_id=user_id, service_id=None, after=None, limit=APPOINTMENTS_TOLD
    )
    worker = await agendas.worker_of_user(db, user_id)
    if not found and not waits and worker is None:
        return None
    return {
        "booked": [_told(one) for one in found],
        "waited_for": [_told_of_wait(one) for one in waits],
        "worker": None if worker is None else await _told_of_worker(db, worker),
    }


def _told(one: Appointment) -> dict[str, Any]:
    return {
        "appointment_id": one.id,
        "service_id": one.service_id,
        "worker_id": one.worker_id,
        "room_id": one.room_id,
        "status": one.status,
        "starts_at": one.starts_at,
        "ends_at": one.ends_at,
        "local_starts_at": one.local_starts_at,
        "time_zone": one.time_zone,
        "canceled_by": one.canceled_by,
        "cancel_reason": one.cancel_reason,
        "created_at": one.created_at,
        "changed_at": one.changed_at,
    }


def _told_of_wait(one: Entry) -> dict[str, Any]:
    return {
        "entry_id": one.id,
        "service_id": one.service_id,
        "worker_id": one.worker_id,
        "from": one.starts_from,
        "to": one.starts_before,
        "status": one.status,
        "created_at": one.created_at,
        "changed_at": one.changed_at,
    }


async def _told_of_worker(db: Db, worker: Worker) -> dict[str, Any]:
    off = await claims.time_off_of(db, worker.no, starts_at=FIRST, ends_at=LAST, limit=APPOINTMENTS_TOLD)
    return {
        "worker_id": worker.id,
        "name": worker.name,
        "time_zone": worker.time_zone,
        "retired": worker.retired,
        "services": await agendas.services_of(db, worker.no),
        "rules": [
            {"weekday": rule.weekday, "start_minute": rule.start_minute, "end_minute": rule.end_minute}
            for rule in await agendas.rules_of(db, worker.no)
        ],
        "time_off": [
            {"starts_at": one.starts_at, "ends_at": one.ends_at, "reason": one.reason} for one in off
        ],
        "calendar_linked": await store.has_feed(db, worker.no),
    }


async def _erase(db: Db, user_id: UserId) -> None:
    """What is ahead is called off; of what was, when and what for stays, as the accounts need it.

    A worker's appointments stay too: they are their clients', who have yet to hear from somebody.
    """
    # All at once, in the order in which everybody holds agendas.
    await agendas.hold_subjects(db, await store.subjects_concerned(db, user_id))
    for one in await store.ahead_of(db, user_id):
        if one.status == "HELD":
            await holding.give_back(db, one.id)
        else:
            with suppress(AppointmentBegun):  # in this very moment
                await moving.cancel(db, one.id, by="client", reason=None)
    await freeing.leave_lines(db, user_id)
    await store.forget_client(db, user_id)
    worker = await agendas.worker_of_user(db, user_id)
    if worker is not None:
        await store.forget_worker(db, worker.no)


PERSONAL_DATA = PersonalData("appointments", export=_export, erase=_erase)
