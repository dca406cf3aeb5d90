"""Every way of freeing time leads to a waitlist offer."""

from uuid import UUID, uuid4

import httpx

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment, open_clinic, service_body
from tests.domains.scheduling.waitlist import Line, cancel, taken


async def test_time_left_by_moving_is_offered(clinic: Clinic, line: Line) -> None:
    client, appointment_id = await taken(clinic)
    waiting = await line.join()
    async with line.dispatching():
        await line.settled()
        moved = await clinic.act(client, appointment_id, "reschedule", starts_at=clinic.at("12:00"))
        assert moved.status_code == 200, moved.text
        await line.becomes(waiting, "OFFERED")


async def test_time_of_a_hold_that_ends_is_offered(clinic: Clinic, line: Line) -> None:
    holder = uuid4()
    given_back, lapsed = [
        (await clinic.hold(holder, clinic.at(clock))).json()["hold_id"] for clock in ("09:00", "11:00")
    ]
    first, second = await line.join("09:00", "09:30"), await line.join("11:00", "11:30")
    async with line.dispatching():
        await line.settled()
        await clinic.api.delete(f"{BASE}/holds/{given_back}", headers=bearer("passenger", holder))
        await line.becomes(first, "OFFERED")
        await clinic.let_lapse(lapsed)
        await line.hasten(UUID(lapsed))
        await line.becomes(second, "OFFERED")


async def test_time_off_that_ends_is_offered(clinic: Clinic, line: Line) -> None:
    off = {"starts_at": clinic.at("00:00"), "ends_at": clinic.at("00:00", days=3)}
    time_off = await clinic.call("POST", f"/workers/{clinic.worker_id}/time-off", off)
    # On the last day: freed time is searched day by day.
    client = uuid4()
    await line.ask(client, clinic.at("15:00", days=2), clinic.at("15:30", days=2))
    async with line.dispatching():
        await line.settled()
        await clinic.call("DELETE", f"/workers/{clinic.worker_id}/time-off/{time_off['time_off_id']}")
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert moment(offer["starts_at"]) == moment(clinic.at("15:00", days=2))
    assert (
        await clinic.sql(
            "SELECT FROM freed_time f JOIN subjects s ON s.no = f.subject_no WHERE s.id = $1",
            clinic.worker_id,
        )
        == []
    )


async def test_hours_that_are_widened_are_offered(clinic: Clinic, line: Line) -> None:
    client = await line.join("19:00", "19:30")
    async with line.dispatching():
        await line.settled()
        rules = [{"weekday": weekday, "start": "09:00", "end": "20:00"} for weekday in range(1, 8)]
        await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", rules)
        await line.becomes(client, "OFFERED")


async def test_a_free_slot_is_offered_as_soon_as_a_client_joins(clinic: Clinic, line: Line) -> None:
    client = await line.join("09:00", "18:00")
    async with line.dispatching():
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert moment(offer["starts_at"]) == moment(clinic.at("09:00"))


async def test_silently_freed_time_is_found_by_the_periodic_search(clinic: Clinic, line: Line) -> None:
    terms = {"duration_minutes": 60, "slot_step_minutes": 30}
    await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(**terms, horizon_days=1))
    client = await line.join()
    async with line.dispatching():
        await line.settled()
        await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(**terms))
        await line.settled()
        entry = await line.entry(client)
        assert entry["status"] == "WAITING"
        [timer] = await clinic.sql("SELECT due_at FROM timers WHERE subject_id = $1", UUID(entry["entry_id"]))
        assert timer["due_at"] < moment(entry["from"])
        await line.hasten(UUID(entry["entry_id"]))
        await line.becomes(client, "OFFERED")


async def test_time_freed_without_a_dispatcher_is_offered_later(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    client = await line.join()
    async with line.dispatching():
        await line.settled()
    await cancel(clinic, *owner)
    assert await line.status(client) == "WAITING"
    async with line.dispatching():
        await line.becomes(client, "OFFERED")


async def test_freed_hour_is_offered_to_a_longer_service_before_it(clinic: Clinic, line: Line) -> None:
    long = await clinic.service(duration_minutes=120, buffer_after_minutes=30)
    await clinic.serves(clinic.worker_id, clinic.service_id, long)
    owner = await taken(clinic, "11:00")
    client = await line.join("09:00", "09:30", service_id=long)
    await clinic.booked(uuid4(), clinic.at("12:00"))
    async with line.dispatching():
        await line.settled()
        assert await line.status(client) == "WAITING"
        await cancel(clinic, *owner)
        await line.becomes(client, "OFFERED")
    assert await clinic.overlaps() == []


async def test_freed_start_is_offered_before_overlapping_slots(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic, "10:00")
    client = await line.join("09:30", "10:30")
    async with line.dispatching():
        await line.settled()
        await cancel(clinic, *owner)
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert moment(offer["starts_at"]) == moment(clinic.at("10:00"))


async def test_a_freed_room_is_offered_with_another_worker(clinic: Clinic, line: Line) -> None:
    room, other = await clinic.room(), await clinic.worker()
    await clinic.rooms_for(clinic.service_id, room)
    owner = await taken(clinic)
    client = await line.join(worker_id=other)
    async with line.dispatching():
        await line.settled()
        await cancel(clinic, *owner)
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert offer["worker_id"] == str(other)


async def test_a_freed_seat_of_a_group_is_offered(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, capacity=2)
    line = Line(clinic)
    owner, _ = await taken(clinic), await taken(clinic)
    first, second = await line.join(), await line.join()
    async with line.dispatching():
        await line.settled()
        await cancel(clinic, *owner)
        await line.becomes(first, "OFFERED")
        await line.settled()
    assert await line.status(second) == "WAITING"


async def test_a_wait_for_one_worker_gets_no_other_workers_slot(clinic: Clinic, line: Line) -> None:
    other = await clinic.worker()
    owner = await taken(clinic)
    await taken(clinic, worker_id=other)
    picky, any_worker = await line.join(worker_id=other), await line.join(worker_id=None)
    async with line.dispatching():
        await cancel(clinic, *owner)
        offer = (await line.becomes(any_worker, "OFFERED"))["offer"]
        await line.settled()
    assert offer["worker_id"] == str(clinic.worker_id)
    assert await line.status(picky) == "WAITING"
