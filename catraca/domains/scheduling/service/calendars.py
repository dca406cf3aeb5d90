"""Calendars elsewhere: a file of one appointment, and an address under which a worker's own are read."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.model.agendas import Appointment, Names, SubjectId
from catraca.domains.scheduling.model.calendar import write_calendar
from catraca.domains.scheduling.service.setting_up import hold_worker
from catraca.domains.scheduling.store import calendars as store
from catraca.domains.scheduling.store.names import names_of
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound

TOKEN_BYTES: Final = 32
BACK: Final = timedelta(days=30)
AHEAD: Final = timedelta(days=365)
MOST_ENTRIES: Final = 5000


async def write_appointment(db: Db, appointment: Appointment) -> bytes:
    """What its parties put into their calendars. A hold is no appointment yet, and may never be one."""
    if appointment.status in ("HELD", "EXPIRED"):
        raise NotFound
    names = await _names(db, [appointment])
    return write_calendar([appointment], names, title=names.services[appointment.service_id])


async def make_link(db: Db, worker_id: SubjectId, *, by: UUID) -> str:
    """The secret of the worker's calendar, told this once: its digest is kept. It ends the one before."""
    worker = await hold_worker(db, worker_id)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    await store.set_feed(db, worker.no, _digest(token))
    await _record(db, "worker.calendar_linked", worker_id, by=by)
    return token


async def end_link(db: Db, worker_id: SubjectId, *, by: UUID) -> None:
    """The address leads nowhere from now on. Safe to repeat."""
    worker = await hold_worker(db, worker_id)
    await store.set_feed(db, worker.no, None)
    await _record(db, "worker.calendar_unlinked", worker_id, by=by)


async def read_feed(db: Db, token: str) -> bytes:
    """A worker's appointments, for whoever has the secret."""
    worker = await store.worker_behind(db, _digest(token))
    if worker is None:
        raise NotFound
    found = await store.appointments_around(db, worker.no, back=BACK, ahead=AHEAD, limit=MOST_ENTRIES)
    return write_calendar(found, await _names(db, found), title=worker.name, of_worker=True)


async def _names(db: Db, appointments: Sequence[Appointment]) -> Names:
    return await names_of(
        db,
        service_ids={one.service_id for one in appointments},
        subject_ids={one.worker_id for one in appointments}
        | {one.room_id for one in appointments if one.room_id is not None},
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


async def _record(db: Db, action: str, worker_id: SubjectId, *, by: UUID) -> None:
    await audit.record(db, actor_id=by, action=action, subject_kind="worker", subject_id=worker_id)
