"""Time off is a claim: it prevents bookings, and bookings prevent it."""

import asyncio
from uuid import uuid4

from tests.domains.scheduling.clinic import Clinic, service_body
from tests.domains.scheduling.races import claims_of


def off(clinic: Clinic, first: str, last: str, **more: str) -> dict[str, str]:
    return {"starts_at": clinic.at(first), "ends_at": clinic.at(last), **more}


async def test_time_off_blocks_its_time_until_it_is_ended(clinic: Clinic) -> None:
    path = f"/workers/{clinic.worker_id}/time-off"
    taken = await clinic.call("POST", path, off(clinic, "10:00", "16:00", reason="Curso"))
    assert await clinic.starts() == ["09:00", "16:00", "16:30", "17:00"]
    assert (await clinic.book(uuid4(), clinic.at("15:30"))).json()["code"] == "slot_taken"
    span = {"from_": clinic.at("15:59"), "to": clinic.at("23:00")}
    assert (await clinic.call("GET", path, **span))["time_off"] == [taken]
    after = {"from_": clinic.at("16:00"), "to": clinic.at("23:00")}
    assert (await clinic.call("GET", path, **after))["time_off"] == []
    ended = await clinic.send("DELETE", f"{path}/{taken['time_off_id']}")
    assert ended.status_code == 204
    assert (await clinic.send("DELETE", f"{path}/{taken['time_off_id']}")).status_code == 404
    await clinic.booked(uuid4(), clinic.at("10:00"))


async def test_time_off_over_bookings_lists_them(clinic: Clinic) -> None:
    path = f"/workers/{clinic.worker_id}/time-off"
    booked = [await clinic.booked(uuid4(), clinic.at(clock)) for clock in ("09:00", "11:00")]
    earlier = await clinic.call("POST", path, off(clinic, "13:00", "14:00"))
    refused = await clinic.send("POST", path, off(clinic, "09:30", "13:30"))
    assert (refused.status_code, refused.json()["code"]) == (409, "agenda_taken")
    assert refused.json()["appointments"] == [one["appointment_id"] for one in booked]
    assert refused.json()["time_off"] == [earlier["time_off_id"]]
    assert len(await claims_of(clinic, clinic.worker_id)) == 3
    # Adjacent claims do not overlap.
    await clinic.call("POST", path, off(clinic, "10:00", "11:00"))
    await clinic.call("POST", path, off(clinic, "14:00", "18:00"))


async def test_time_off_respects_booked_buffers(clinic: Clinic) -> None:
    await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(buffer_after_minutes=15))
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    path = f"/workers/{clinic.worker_id}/time-off"
    refused = await clinic.send("POST", path, off(clinic, "10:00", "11:00"))
    assert refused.json()["appointments"] == [booked["appointment_id"]]
    await clinic.call("POST", path, off(clinic, "10:15", "11:00"))


async def test_concurrent_time_off_and_booking_have_one_winner(clinic: Clinic) -> None:
    path = f"/workers/{clinic.worker_id}/time-off"
    for days in range(5):
        body = {"starts_at": clinic.at("09:00", days=days), "ends_at": clinic.at("10:00", days=days)}
        taken, booked = await asyncio.gather(
            clinic.send("POST", path, body), clinic.book(uuid4(), clinic.at("09:00", days=days))
        )
        assert sorted([taken.status_code, booked.status_code]) == [201, 409]
    assert await clinic.overlaps() == []
