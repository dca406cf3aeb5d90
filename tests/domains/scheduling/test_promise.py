"""Every offered slot can be booked and every other time is refused, over HTTP, with random agendas."""

import random
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catraca.roles.parts import Parts
from tests.domains.scheduling.clinic import Clinic, open_clinic
from tests.domains.scheduling.clocks import next_switch

# Zones with two clock changes a year; the last one changes by half an hour.
ZONES = ("America/New_York", "Europe/Lisbon", "Australia/Lord_Howe")
AGENDAS = 5
OTHER_TIMES = 25
MINUTE = timedelta(minutes=1)

minutes = st.integers(0, 95).map(lambda quarter: f"{quarter // 4:02}:{quarter % 4 * 15:02}")
shifts = st.builds(lambda start, end: {"start": start, "end": end}, minutes, minutes)


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Hours on the day of a clock change and the next, the time taken in them, and the service."""
    return {
        "zone": draw(st.sampled_from(ZONES)),
        "back": draw(st.booleans()),
        "days": [draw(st.lists(shifts, min_size=1, max_size=2)) for _ in range(2)],
        "terms": {
            "duration_minutes": draw(st.sampled_from([20, 45, 60, 90])),
            "slot_step_minutes": draw(st.sampled_from([60, 75, 120])),
            "buffer_before_minutes": draw(st.sampled_from([0, 10])),
            "buffer_after_minutes": draw(st.sampled_from([0, 15])),
            "capacity": draw(st.sampled_from([1, 2])),
            "horizon_days": 730,
        },
        # Start in minutes after the first midnight, and length.
        "taken": draw(st.lists(st.tuples(st.integers(0, 2800), st.integers(5, 200)), max_size=4)),
        "rooms": draw(
            st.none() | st.lists(st.tuples(st.integers(0, 2800), st.integers(5, 300)), min_size=1, max_size=2)
        ),
        "seed": draw(st.integers(0, 2**32)),
    }


@settings(
    max_examples=AGENDAS,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=plans())
async def test_offered_slots_are_bookable_and_others_are_refused(
    api: httpx.AsyncClient, parts: Parts, plan: dict[str, Any]
) -> None:
    clinic = await open_clinic(api, parts, zone=plan["zone"], **plan["terms"])
    midnight = await _set_up(clinic, plan)
    ends = midnight + timedelta(days=2)
    query = {"from": midnight.isoformat(), "to": ends.isoformat()}
    offered = [datetime.fromisoformat(slot["starts_at"]) for slot in await clinic.slots(**query)]
    client = uuid4()
    for starts_at in offered:
        booked = await clinic.booked(client, starts_at.isoformat())
        canceled = await clinic.act(client, booked["appointment_id"], "cancel")
        assert canceled.status_code == 200, canceled.text
    for starts_at in _others(midnight, ends, offered, plan):
        refused = await clinic.book(client, starts_at.isoformat())
        assert refused.status_code in (409, 422), f"{starts_at}: {refused.text}"
        assert refused.json()["code"] in ("slot_taken", "slot_not_offered")
    # All time is free again.
    again = [datetime.fromisoformat(slot["starts_at"]) for slot in await clinic.slots(**query)]
    assert again == offered


async def _set_up(clinic: Clinic, plan: dict[str, Any]) -> datetime:
    """Set up the agenda; returns the midnight before the clock change."""
    day = next_switch(clinic.zone, back=plan["back"])
    midnight = datetime.combine(day, datetime.min.time(), ZoneInfo(clinic.zone))
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", [])
    overrides = [
        {"day": str(day + timedelta(days=number)), "shifts": worked}
        for number, worked in enumerate(plan["days"])
    ]
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", overrides)
    await _take_off(clinic, f"/workers/{clinic.worker_id}/time-off", midnight, plan["taken"])
    if plan["rooms"] is not None:
        rooms: list[UUID] = []
        for taken in plan["rooms"]:
            rooms.append(await clinic.room())
            await _take_off(clinic, f"/rooms/{rooms[-1]}/time-off", midnight, [taken])
        await clinic.rooms_for(clinic.service_id, *rooms)
    return midnight


async def _take_off(clinic: Clinic, path: str, midnight: datetime, taken: list[tuple[int, int]]) -> None:
    """Add time off; spans that overlap the last one are skipped."""
    start = datetime.fromtimestamp(midnight.timestamp(), ZoneInfo("UTC"))
    free_from = 0
    for first, length in sorted(taken):
        if first >= free_from:
            free_from = first + length
            off = {"starts_at": start + first * MINUTE, "ends_at": start + free_from * MINUTE}
            await clinic.call("POST", path, {name: at.isoformat() for name, at in off.items()})


def _others(
    midnight: datetime, ends: datetime, offered: list[datetime], plan: dict[str, Any]
) -> list[datetime]:
    """Times near the offered ones, and random other times."""
    chance = random.Random(plan["seed"])
    start = datetime.fromtimestamp(midnight.timestamp(), ZoneInfo("UTC"))
    length = int((ends.timestamp() - midnight.timestamp()) // 60)
    near = [at + timedelta(seconds=seconds) for at in offered for seconds in (-1, 1, -60, 60)]
    grid = [start + 15 * quarter * MINUTE for quarter in range(length // 15)]
    anywhere = [start + chance.randrange(length) * MINUTE for _ in range(OTHER_TIMES)]
    known = set(offered)
    times = [at for at in [*near, *grid, *anywhere] if at not in known]
    return chance.sample(times, min(OTHER_TIMES, len(times)))
