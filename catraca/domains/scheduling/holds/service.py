"""Create, book, release and expire holds. An expired hold is ignored at once and closed by its timer."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.appointments import service as appointments
from catraca.domains.scheduling.appointments.model import (
    UPCOMING_STATUSES,
    Appointment,
    BookingRequest,
    Client,
    HoldLimits,
)
from catraca.domains.scheduling.appointments.service import HOLD_DUE
from catraca.domains.scheduling.appointments.store import read_appointment
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.errors import HoldContradicted
from catraca.domains.scheduling.freed_time.service import close_offer
from catraca.domains.scheduling.holds import store
from catraca.domains.scheduling.shared.model import AppointmentId, BookingRules
from catraca.domains.scheduling.shared.store import lock_subjects
from catraca.platform.auth import Principal
from catraca.platform.database import Db, timers
from catraca.platform.errors import NotFound

EXPIRED_KEPT_FOR: Final = timedelta(days=1)


async def create_hold(
    db: Db, request: BookingRequest, client: Client, *, rules: BookingRules, by_operator: bool = False
) -> Appointment:
    """Keep a time for the client until the hold expires. Safe to repeat: returns the client's hold.

    In a group each call of an operator is another seat; a client has one.
    """
    assert client.id is not None, "holds are counted per account"
    await appointments.lock_for_booking(db, request, client)
    existing = await store.find_hold(db, client.id, request, in_groups=not by_operator)
    if existing is not None:
        return existing
    hold = await appointments.reserve_seat(
        db,
        request,
        client,
        limits=None if by_operator else rules.limits,
        hold=HoldLimits(rules.hold_ttl, rules.max_holds),
    )
    await expire_by_timer(db, hold)
    appointments.count_outcome(db, "held")
    return hold


async def expire_by_timer(db: Db, hold: Appointment) -> None:
    assert hold.expires_at is not None
    await timers.set_timer(db, HOLD_DUE, hold.id, due_at=hold.expires_at)


async def book_hold(
    db: Db, hold_id: AppointmentId, request: BookingRequest, client: Client
) -> tuple[Appointment | None, bool]:
    """Book the client's hold. Returns the appointment, None if the hold has ended, and whether it is new.

    Booked again with the same hold, it is the same appointment.
    """
    hold = await read_appointment(db, hold_id)
    if hold is None or hold.client.id != client.id:
        raise NotFound
    _check_same(hold, request)
    booked = await store.book_hold(db, hold_id)
    if booked is None:
        found = await read_appointment(db, hold_id)
        return found if found and found.status in UPCOMING_STATUSES else None, False
    if booked.waitlist_entry_id is not None:
        await close_offer(db, hold_id, "BOOKED")
    await timers.cancel_timer(db, HOLD_DUE, hold_id)
    return booked, True


def _check_same(hold: Appointment, request: BookingRequest) -> None:
    differs = {
        "service_id": hold.service_id != request.service_id,
        "worker_id": request.worker_id not in (None, hold.worker_id),
        "starts_at": to_seconds(hold.starts_at) != request.starts,
    }
    if any(differs.values()):
        raise HoldContradicted(fields=[name for name, is_other in differs.items() if is_other])


async def release_hold_for(db: Db, caller: Principal, hold_id: UUID) -> None:
    """Release a hold for one of its parties; for other callers: 404."""
    hold = await read_appointment(db, hold_id)
    if hold is None or appointments.party_of(caller, hold) is None:
        raise NotFound
    await release_hold(db, hold)


async def release_hold(db: Db, hold: Appointment) -> None:
    """Release a hold before it expires. A booked one stays booked. Safe to repeat."""
    if hold.status != "HELD":
        return
    await lock_subjects(db, [hold.worker_no])
    if await appointments.release_seat(db, hold, "EXPIRED") is not None:
        await appointments.hold_ended(db, hold, is_declined=True)
        appointments.count_outcome(db, "hold_given_back")


async def expire_hold(db: Db, hold_id: UUID) -> None:
    """Close a hold that has expired; otherwise do nothing. Safe to repeat."""
    hold = await read_appointment(db, hold_id)
    if hold is not None and hold.session_id is not None:
        await appointments.close_expired_holds(db, [hold.session_id], only=hold_id)


async def prune_holds(db: Db, *, limit: int = 1000) -> int:
    """Delete holds that expired or were released some time ago; returns how many."""
    return await store.delete_expired_holds(db, older_than=EXPIRED_KEPT_FOR, limit=limit)
