"""What an appointment's change brings with it: its event, its timers, its figure."""

from datetime import timedelta
from typing import Any

from prometheus_client import Counter

from catraca.domains.scheduling.model.agendas import Appointment
from catraca.events.appointments import AppointmentEvent
from catraca.platform.database import Db, after_commit, outbox, timers
from catraca.platform.database.timers import TimerKind

REMINDER_DUE = TimerKind("scheduling.reminder_due")
HOLD_DUE = TimerKind("scheduling.hold_due")
BOOKINGS = Counter("catraca_appointments_total", "What became of appointments and of holds.", ["outcome"])


def said_of(appointment: Appointment) -> dict[str, Any]:
    """What each of its events says."""
    return {
        "appointment_id": appointment.id,
        "service_id": appointment.service_id,
        "worker_id": appointment.worker_id,
        "worker_user_id": appointment.worker_user_id,
        "client_id": appointment.client.id,
        "starts_at": appointment.starts_at,
        "ends_at": appointment.ends_at,
        "time_zone": appointment.time_zone,
        "sequence": appointment.sequence,
    }


async def tell(db: Db, event: AppointmentEvent, *, outcome: str) -> None:
    await outbox.record(db, event)
    count(db, outcome)


def count(db: Db, outcome: str) -> None:
    after_commit(db, lambda: BOOKINGS.labels(outcome).inc())


async def remind_in_time(db: Db, appointment: Appointment, ahead: timedelta) -> None:
    """Set or move its reminder. One that is due by now would say nothing new: it is not set."""
    due_at = appointment.starts_at - ahead
    if due_at > appointment.changed_at:
        await timers.set_timer(db, REMINDER_DUE, appointment.id, due_at=due_at)
    else:
        await timers.cancel_timer(db, REMINDER_DUE, appointment.id)
