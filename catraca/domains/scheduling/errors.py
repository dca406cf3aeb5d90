"""What is refused about agendas."""

from catraca.platform.errors import Refusal


class SlotTaken(Refusal):
    """Somebody was faster; `alternatives` are the nearest slots that are free."""

    code = "slot_taken"
    status = 409


class SlotNotOffered(Refusal):
    """Nobody is offered that time; `faults` say why, `alternatives` are the nearest slots that are free."""

    code = "slot_not_offered"
    status = 422


class AgendaTaken(Refusal):
    """In that time are `appointments`, `holds` or other `time_off`: move or end those first."""

    code = "agenda_taken"
    status = 409


class AppointmentOver(Refusal):
    """It has the `appointment_status` it has, and cannot become what was asked for."""

    code = "appointment_over"
    status = 409


class AppointmentBegun(Refusal):
    """Its client could move or cancel it before it began, at `starts_at`."""

    code = "appointment_begun"
    status = 409


class AppointmentNotStarted(Refusal):
    """Nobody is missed before the time has come: `starts_at`."""

    code = "appointment_not_started"
    status = 409


class TooManyHolds(Refusal):
    """The client holds as many times as one may: `limit`."""

    code = "too_many_holds"
    status = 409


class HoldContradicted(Refusal):
    """The hold is for another service, worker or time; `fields` are those."""

    code = "hold_contradicted"
    status = 422


class TimeZoneUnknown(Refusal):
    code = "time_zone_unknown"
    status = 422


class HolidaysUnknown(Refusal):
    """No holidays are known for that country and state."""

    code = "holidays_unknown"
    status = 422


class RangeInvalid(Refusal):
    """`from` is not before `to`."""

    code = "range_invalid"
    status = 422


class RangeTooLong(Refusal):
    """More than `most_days` at once."""

    code = "range_too_long"
    status = 422


class ServiceRetired(Refusal):
    code = "service_retired"
    status = 409


class WorkerTaken(Refusal):
    """That account is another worker's already."""

    code = "worker_taken"
    status = 409


class SeriesTaken(Refusal):
    """Not all of the series can be, and so nothing was booked; `failed` says which, why, and what is free."""

    code = "series_taken"
    status = 409


class TooManyWaits(Refusal):
    """The client waits for as many times as one may: `limit`."""

    code = "too_many_waits"
    status = 409
