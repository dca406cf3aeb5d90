"""Refusals of scheduling."""

from catraca.platform.errors import Refusal


class SlotTaken(Refusal):
    """The time was free and is taken now; `alternatives` are the nearest free slots."""

    code = "slot_taken"
    status = 409


class SlotNotOffered(Refusal):
    """The time is not a slot; `faults` says why, `alternatives` are the nearest free slots."""

    code = "slot_not_offered"
    status = 422


class AgendaTaken(Refusal):
    """The time is in use; `appointments`, `holds` and `time_off` list what to move or end first."""

    code = "agenda_taken"
    status = 409


class AppointmentOver(Refusal):
    """The appointment's `appointment_status` does not lead to the `wanted` status."""

    code = "appointment_over"
    status = 409


class AppointmentBegun(Refusal):
    """Clients move and cancel an appointment before `starts_at` only."""

    code = "appointment_begun"
    status = 409


class AppointmentNotStarted(Refusal):
    """A no-show is recorded from `starts_at` on only."""

    code = "appointment_not_started"
    status = 409


class TooManyHolds(Refusal):
    """The client has `limit` holds, the most allowed."""

    code = "too_many_holds"
    status = 409


class ClientBusy(Refusal):
    """The client has an appointment or a hold at that time; the client itself is told which."""

    code = "client_busy"
    status = 409


class TooManyAppointments(Refusal):
    """The client has `limit` upcoming appointments and holds, the most allowed."""

    code = "too_many_appointments"
    status = 409


class TooManyInSeries(Refusal):
    """With this series the client would have more than `limit` upcoming appointments in series."""

    code = "too_many_in_series"
    status = 409


class HoldContradicted(Refusal):
    """The hold differs from the booking request in these `fields`."""

    code = "hold_contradicted"
    status = 422


class TimeZoneUnknown(Refusal):
    code = "time_zone_unknown"
    status = 422


class HolidaysUnknown(Refusal):
    """No holidays are known for this country and state."""

    code = "holidays_unknown"
    status = 422


class RangeInvalid(Refusal):
    """`from` is not before `to`."""

    code = "range_invalid"
    status = 422


class RangeTooLong(Refusal):
    """The range is longer than `most_days`."""

    code = "range_too_long"
    status = 422


class WorkerRetired(Refusal):
    code = "worker_retired"
    status = 409


class ServiceRetired(Refusal):
    code = "service_retired"
    status = 409


class WorkerTaken(Refusal):
    """The account belongs to another worker."""

    code = "worker_taken"
    status = 409


class SeriesTaken(Refusal):
    """Nothing was booked; `failed` lists the times that are not free, with reasons and alternatives."""

    code = "series_taken"
    status = 409


class TooManyWaits(Refusal):
    """The client has `limit` open waitlist entries, the most allowed."""

    code = "too_many_waits"
    status = 409
