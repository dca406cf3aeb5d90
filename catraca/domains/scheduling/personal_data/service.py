"""Export and erase what scheduling stores about a person."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from catraca.domains.people import PersonalData, UserId
from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.agendas.service import find_worker_of_user, get_hours, get_services_of
from catraca.domains.scheduling.appointments.service import lock_appointments
from catraca.domains.scheduling.booking.service import cancel_locked
from catraca.domains.scheduling.calendars.store import has_link
from catraca.domains.scheduling.errors import AppointmentBegun
from catraca.domains.scheduling.holds.service import release_hold
from catraca.domains.scheduling.personal_data import store
from catraca.domains.scheduling.shared.store import lock_subjects
from catraca.domains.scheduling.time_off.service import find_time_off
from catraca.domains.scheduling.waitlist.service import find_entries, leave_all
from catraca.platform.clock import END_OF_MOMENTS, FIRST_MOMENT
from catraca.platform.database import Db
from catraca.platform.database.idempotency import erase_in_responses

MAX_EXPORTED: Final = 1000
ENTRY_FIELDS: Final = ("service_id", "worker_id", "status", "created_at", "changed_at")
APPOINTMENT_FIELDS: Final = (
    *("service_id", "worker_id", "room_id", "status", "starts_at", "ends_at", "local_starts_at", "time_zone"),
    *("canceled_by", "cancel_reason", "created_at", "changed_at"),
)

erase_walk_ins = store.erase_walk_ins


async def _export(db: Db, user_id: UserId) -> object:
    """Appointments and waitlist entries of a client, and the data of a worker without its clients."""
    booked = await store.read_all(db, user_id, limit=MAX_EXPORTED)
    entries = await find_entries(db, client_id=user_id, service_id=None, after=None, limit=MAX_EXPORTED)
    worker = await find_worker_of_user(db, user_id)
    if not booked and not entries and worker is None:
        return None
    return {
        "booked": [{"appointment_id": one.id, **_fields(one, APPOINTMENT_FIELDS)} for one in booked],
        "waited_for": [
            {
                "entry_id": one.id,
                "from": one.starts_from,
                "to": one.starts_before,
                **_fields(one, ENTRY_FIELDS),
            }
            for one in entries
        ],
        "worker": None if worker is None else await _worker(db, worker),
    }


async def _worker(db: Db, worker: Worker) -> dict[str, Any]:
    time_off = await find_time_off(db, worker.no, (FIRST_MOMENT, END_OF_MOMENTS), limit=MAX_EXPORTED)
    rules = (await get_hours(db, worker)).hours.rules
    return {
        "worker_id": worker.id,
        **_fields(worker, ("name", "time_zone", "retired")),
        "services": await get_services_of(db, worker.id),
        "rules": [_fields(rule, ("weekday", "start_minute", "end_minute")) for rule in rules],
        "time_off": [_fields(one, ("starts_at", "ends_at", "reason")) for one in time_off],
        "calendar_linked": await has_link(db, worker.no),
    }


def _fields(of: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


async def _erase(db: Db, user_id: UserId) -> None:
    """Cancel what is upcoming and erase texts. Times and services of past appointments stay for the accounts.

    A worker's appointments stay: an operator must move them, and inform the clients.
    """
    # All agendas at once, as every transaction locks them.
    await lock_subjects(db, await store.read_subjects(db, user_id))
    for one in await store.read_upcoming(db, user_id):
        if one.status == "HELD":
            await release_hold(db, one)
        else:
            (locked,) = await lock_appointments(db, one.id)
            with suppress(AppointmentBegun):  # meanwhile
                await cancel_locked(db, locked, by="client", reason=None)
    await leave_all(db, user_id)
    await store.erase_client(db, user_id)
    worker = await find_worker_of_user(db, user_id)
    if worker is not None:
        time_off_ids = await store.erase_worker(db, worker.no)
        await erase_in_responses(db, worker.id, *time_off_ids)


PERSONAL_DATA = PersonalData("appointments", export=_export, erase=_erase)
