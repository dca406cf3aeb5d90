"""Calendar files, and the secret link under which a worker's calendar is read."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.agendas.service import get_managed_worker, lock_worker, names_of, record_audit
from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.service import get_for_party
from catraca.domains.scheduling.calendars import store
from catraca.domains.scheduling.calendars.model import write_calendar
from catraca.domains.scheduling.errors import WorkerRetired
from catraca.domains.scheduling.shared.model import Names, SubjectId
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_token, token_digest

BACK: Final = timedelta(days=30)
AHEAD: Final = timedelta(days=365)
MAX_APPOINTMENTS: Final = 5000


async def write_appointment(db: Db, caller: Principal, appointment_id: UUID) -> bytes:
    """The calendar file of one appointment, for its parties."""
    appointment = await get_for_party(db, caller, appointment_id)
    names = await _names(db, [appointment])
    return write_calendar([appointment], names, title=names.services[appointment.service_id])


async def make_link(db: Db, caller: Principal, worker_id: SubjectId) -> str:
    """A new secret for the worker's calendar; the one before ends. Only its digest is stored.

    The link ends when the tokens of the worker's account are revoked. A worker's own link is as old as the
    token it is made with; an operator's is granted now, because other tokens are revoked than the operator's.
    """
    await get_managed_worker(db, caller, worker_id)
    worker = await lock_worker(db, worker_id)
    if worker.retired:
        raise WorkerRetired
    token = new_token()
    granted_at = caller.issued_at if worker.user_id == caller.id else None
    await store.set_link(db, worker.no, token_digest(token), granted_at=granted_at)
    await record_audit(db, "worker.calendar_linked", worker_id, by=caller.id)
    return token


async def end_link(db: Db, caller: Principal, worker_id: SubjectId) -> None:
    """Remove the link. Safe to repeat."""
    await get_managed_worker(db, caller, worker_id)
    worker = await lock_worker(db, worker_id)
    await store.delete_link(db, worker.no)
    await record_audit(db, "worker.calendar_unlinked", worker_id, by=caller.id)


async def read_calendar(db: Db, token: str) -> bytes:
    """The calendar of the worker whose link has this secret."""
    worker = await store.read_worker_by_link(db, token_digest(token))
    if worker is None:
        raise NotFound
    found = await store.appointments_around(db, worker.no, back=BACK, ahead=AHEAD, limit=MAX_APPOINTMENTS)
    return write_calendar(found, await _names(db, found), title=worker.name, of_worker=True)


async def _names(db: Db, appointments: Sequence[Appointment]) -> Names:
    return await names_of(
        db,
        service_ids={one.service_id for one in appointments},
        subject_ids={one.worker_id for one in appointments}
        | {one.room_id for one in appointments if one.room_id is not None},
    )
