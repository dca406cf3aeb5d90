"""One clinic, for the examples that `/docs` shows."""

from pydantic import ConfigDict
from pydantic.config import JsonDict

ANA = "0198a8b2-3c00-7000-8000-00000000a0a1"
MASSAGE = "0198a8b2-3c00-7000-8000-00000000b0b1"
ROOM = "0198a8b2-3c00-7000-8000-00000000c0c1"
HOLD = "0198a8b2-3c00-7000-8000-00000000d0d1"
APPOINTMENT = "0198a8b2-3c00-7000-8000-00000000d0d2"
OTHER = "0198a8b2-3c00-7000-8000-00000000d0d3"
CLIENT = "0198a8b2-3c00-7000-8000-00000000e0e1"
TIME_OFF = "0198a8b2-3c00-7000-8000-00000000f0f1"
NINE, TEN, ELEVEN = "2026-12-01T12:00:00Z", "2026-12-01T13:00:00Z", "2026-12-01T14:00:00Z"
MADE = "2026-11-20T17:31:08.214Z"

HOLIDAYS: JsonDict = {"country": "BR", "state": "BA"}
WORKER: JsonDict = {"name": "Ana Souza", "time_zone": "America/Bahia", "holidays": HOLIDAYS}
WORKER_SEEN: JsonDict = {"worker_id": ANA, **WORKER, "retired": False}
MORNING: JsonDict = {"start": "09:00", "end": "12:00"}
RULE: JsonDict = {"weekday": 1, **MORNING, "valid_from": None, "valid_to": None}
NIGHT: JsonDict = {"weekday": 5, "start": "22:00", "end": "06:00", "valid_from": None, "valid_to": None}
OVERRIDE: JsonDict = {"day": "2026-12-24", "shifts": [MORNING]}
DAY_OFF: JsonDict = {"day": "2026-12-26", "shifts": []}
HOURS: JsonDict = {
    "worker_id": ANA,
    "time_zone": "America/Bahia",
    "rules": [RULE, NIGHT],
    "overrides": [OVERRIDE, DAY_OFF],
    "outside": [],
}
AWAY: JsonDict = {"starts_at": NINE, "ends_at": ELEVEN, "reason": "Curso"}
AWAY_SEEN: JsonDict = {"time_off_id": TIME_OFF, **AWAY}

SERVICE: JsonDict = {
    "name": "Massagem",
    "duration_minutes": 60,
    "buffer_before_minutes": 0,
    "buffer_after_minutes": 15,
    "min_notice_minutes": 120,
    "horizon_days": 60,
    "slot_step_minutes": 30,
    "capacity": 1,
    "retired": False,
}
SERVICE_SEEN: JsonDict = {"service_id": MASSAGE, **SERVICE}
ROOM_SEEN: JsonDict = {"room_id": ROOM, "name": "Sala 1", "retired": False}

WALK_IN: JsonDict = {"name": "Seu Jorge", "contact": "+5571987654321"}
TIME: JsonDict = {"service_id": MASSAGE, "worker_id": ANA, "starts_at": NINE}
SLOT: JsonDict = {"worker_id": ANA, "starts_at": TEN, "ends_at": ELEVEN, "seats_left": 1}
HOLD_SEEN: JsonDict = {
    "hold_id": HOLD,
    **TIME,
    "ends_at": TEN,
    "expires_at": "2026-11-20T17:36:08.214Z",
}
BOOKED: JsonDict = {
    "appointment_id": APPOINTMENT,
    **TIME,
    "room_id": ROOM,
    "series_id": None,
    "client": {"user_id": CLIENT, "name": None, "contact": None},
    "status": "BOOKED",
    "ends_at": TEN,
    "local_starts_at": "2026-12-01T09:00:00",
    "time_zone": "America/Bahia",
    "tzdata_version": "2026a",
    "sequence": 0,
    "canceled_by": None,
    "cancel_reason": None,
    "created_at": MADE,
    "changed_at": MADE,
}
BOOKED_TOO: JsonDict = {
    **BOOKED,
    "appointment_id": OTHER,
    "starts_at": TEN,
    "ends_at": ELEVEN,
    "local_starts_at": "2026-12-01T10:00:00",
    "client": {"user_id": None, **WALK_IN},
}
EXPLAINED: JsonDict = {
    "offered": False,
    "reasons": [],
    "workers": [
        {
            "worker_id": ANA,
            "time_zone": "America/Bahia",
            "local_starts_at": "2026-12-25T09:00:00-03:00",
            "offered": False,
            "reasons": [
                {
                    "code": "outside_hours",
                    "message": "The worker does not work then, or not long enough.",
                    "day": {
                        "day": "2026-12-25",
                        "shifts": [],
                        "closed_by": "holiday",
                        "holiday": "Christmas Day",
                    },
                }
            ],
            "notes": [],
        }
    ],
    "alternatives": [SLOT],
}


def shown_as(*examples: JsonDict) -> ConfigDict:
    """For a model's `model_config`."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})
