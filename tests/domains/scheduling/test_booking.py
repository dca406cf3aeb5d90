"""Bookings: one slot, one winner."""

import asyncio
from uuid import uuid4

import httpx
import pytest
from prometheus_client import REGISTRY

from catraca.domains.scheduling.calendar_math.zones import TZDATA_VERSION
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment, open_clinic, service_body


async def test_a_free_time_is_booked_and_then_no_longer_offered(clinic: Clinic) -> None:
    assert "09:00" in await clinic.starts()
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    assert booked["status"] == "BOOKED"
    assert moment(booked["starts_at"]) == moment(clinic.at("09:00"))
    assert await clinic.starts() == [
        f"{hour:02}:{minute:02}" for hour in range(10, 18) for minute in (0, 30) if (hour, minute) != (17, 30)
    ]


async def test_an_overlapping_booking_gets_the_nearest_alternatives(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    lost = await clinic.book(uuid4(), clinic.at("09:30"))
    assert lost.status_code == 409
    assert lost.json()["code"] == "slot_taken"
    nearest = [moment(slot["starts_at"]) for slot in lost.json()["alternatives"]]
    assert nearest == [moment(clinic.at(clock)) for clock in ("10:00", "10:30", "11:00", "11:30", "12:00")]


@pytest.mark.parametrize("path", ["appointments", "holds", "series"])
async def test_bookings_with_any_worker_use_the_services_queue(clinic: Clinic, path: str) -> None:
    more = {
        # A client's own booking goes together with others instead.
        "appointments": {"client": {"name": "Bia"}},
        "holds": {},
        "series": {"every": "week", "count": 2},
    }[path]
    body, before = clinic.wish(clinic.at("09:00"), worker_id=None, **more), turns()
    by = bearer("operator" if path == "appointments" else "passenger")
    answer = await clinic.api.post(f"{BASE}/{path}", json=body, headers=by)
    assert answer.status_code == 201, answer.text
    assert turns() == before + 1


def turns() -> float:
    """Requests that used a queue without others in it."""
    return REGISTRY.get_sample_value("catraca_turns_total", {"outcome": "alone"}) or 0.0


async def test_one_of_many_concurrent_bookings_succeeds(clinic: Clinic) -> None:
    answers = await asyncio.gather(*(clinic.book(uuid4(), clinic.at("09:00")) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert await clinic.overlaps() == []


async def test_a_canceled_time_can_be_booked_again(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    canceled = await clinic.act(client, booked["appointment_id"], "cancel")
    assert canceled.json()["status"] == "CANCELED", canceled.text
    await clinic.booked(uuid4(), clinic.at("09:00"))


async def test_moving_into_its_own_time_is_no_overlap(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("09:30"))
    assert moved.status_code == 200, moved.text
    assert moment(moved.json()["starts_at"]) == moment(clinic.at("09:30"))
    assert moved.json()["sequence"] == 1


async def test_a_hold_keeps_others_out_and_becomes_the_appointment(clinic: Clinic) -> None:
    client = uuid4()
    held = await clinic.hold(client, clinic.at("09:00"))
    assert held.status_code == 201, held.text
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409
    booked = await clinic.booked(client, clinic.at("09:00"), hold_id=held.json()["hold_id"])
    assert booked["appointment_id"] == held.json()["hold_id"]


async def test_expired_hold_is_ignored(clinic: Clinic) -> None:
    held = await clinic.hold(uuid4(), clinic.at("09:00"))
    await clinic.let_lapse(held.json()["hold_id"])
    assert "09:00" in await clinic.starts()
    await clinic.booked(uuid4(), clinic.at("09:00"))


async def test_the_least_booked_worker_is_chosen_then_the_idlest(clinic: Clinic) -> None:
    short = await clinic.service(duration_minutes=30)
    workers = [clinic.worker_id, await clinic.worker(), await clinic.worker()]
    for worker_id in workers:
        await clinic.serves(worker_id, clinic.service_id, short)
    for worker_id, clock in zip(workers, ("09:00", "11:00", "10:00"), strict=True):
        await clinic.booked(uuid4(), clinic.at(clock), worker_id=worker_id)
    await clinic.booked(uuid4(), clinic.at("10:00"), worker_id=workers[0], service_id=short)
    # The first worker is idle since 10:30 but has more booked; the third is idle since 11:00.
    any_worker = [await clinic.booked(uuid4(), clinic.at("14:00"), worker_id=None) for _ in range(3)]
    assert [one["worker_id"] for one in any_worker] == [str(workers[place]) for place in (2, 1, 0)]
    lost = await clinic.book(uuid4(), clinic.at("14:00"), worker_id=None)
    assert lost.status_code == 409
    assert {slot["worker_id"] for slot in lost.json()["alternatives"]} == {str(one) for one in workers}


async def test_concurrent_bookings_for_any_worker_use_each_free_worker(clinic: Clinic) -> None:
    workers = {str(clinic.worker_id), *[str(await clinic.worker()) for _ in range(3)]}
    answers = await asyncio.gather(
        *(clinic.book(uuid4(), clinic.at("09:00"), worker_id=None) for _ in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 4 + [409] * 6
    assert {answer.json()["worker_id"] for answer in answers if answer.is_success} == workers


async def test_services_without_workers_or_retired_are_refused_clearly(clinic: Clinic) -> None:
    unserved = await clinic.service()
    refused = await clinic.book(uuid4(), clinic.at("09:00"), service_id=unserved, worker_id=None)
    assert (refused.status_code, refused.json()["faults"]) == (422, ["no_worker"])
    assert (await clinic.book(uuid4(), clinic.at("09:00"), service_id=uuid4())).status_code == 404
    await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(retired=True))
    refused = await clinic.book(uuid4(), clinic.at("09:00"))
    assert (refused.status_code, refused.json()["code"]) == (409, "service_retired")


async def test_a_slot_never_offered_differs_from_a_taken_one(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    for clock, faults in (
        ("08:00", ["outside_hours"]),
        ("17:30", ["outside_hours"]),
        ("10:10", ["off_grid"]),
        ("09:10", ["busy", "off_grid"]),
    ):
        refused = await clinic.book(uuid4(), clinic.at(clock))
        assert (refused.status_code, refused.json()["code"]) == (422, "slot_not_offered"), clock
        assert refused.json()["faults"] == faults
        assert refused.json()["alternatives"], "the nearest slots are listed too"
    past = await clinic.book(uuid4(), clinic.at("09:00", days=-10))
    assert past.json()["faults"] == ["too_soon"]
    beyond = await clinic.book(uuid4(), clinic.at("09:00", days=90))
    assert beyond.json()["faults"] == ["beyond_horizon"]


async def test_only_operators_book_for_clients_without_an_account(clinic: Clinic) -> None:
    jorge = {"name": "Seu Jorge", "contact": "+5571987654321"}
    wish = clinic.wish(clinic.at("09:00"), client=jorge)
    for role in ("passenger", "worker"):
        assert (await clinic.send("POST", "/appointments", wish, by=bearer(role))).status_code == 403
    booked = await clinic.call("POST", "/appointments", wish)
    assert booked["client"] == {"user_id": None, **jorge}
    path = f"/appointments/{booked['appointment_id']}"
    assert (await clinic.send("GET", path, by=bearer())).status_code == 404
    canceled = await clinic.call("POST", f"{path}/cancel")
    assert canceled["client"] == booked["client"]
    body = clinic.wish(clinic.at("10:00"), client={"user_id": str(uuid4())})
    assert (await clinic.send("POST", "/appointments", body)).status_code == 404, "the user does not exist"


@pytest.mark.parametrize(
    "client",
    [
        {},
        {"contact": "x"},
        {"user_id": str(uuid4()), "name": "Ana"},
        {"user_id": str(uuid4()), "contact": "x"},
    ],
)
async def test_the_client_of_a_booking_must_be_unambiguous(clinic: Clinic, client: dict[str, str]) -> None:
    answer = await clinic.send("POST", "/appointments", clinic.wish(clinic.at("09:00"), client=client))
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["where"], error["code"]) == ("body.client", "client_unclear")


async def test_a_service_account_books_for_its_clients(clinic: Clinic) -> None:
    client = uuid4()
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    wish = clinic.wish(clinic.at("09:00"), client={"user_id": str(client)})
    booked = await clinic.send("POST", "/appointments", wish, by=bearer("service"))
    assert booked.status_code == 201, booked.text
    canceled = await clinic.act(client, booked.json()["appointment_id"], "cancel")
    assert canceled.json()["canceled_by"] == "client"


async def test_agreed_times_are_in_the_workers_zone(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, zone="America/Bahia")
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    assert moment(booked["starts_at"]) == moment(f"{clinic.day}T12:00:00+00:00")
    assert booked["local_starts_at"] == f"{clinic.day}T09:00:00"
    assert (booked["time_zone"], booked["tzdata_version"]) == ("America/Bahia", TZDATA_VERSION)


async def test_an_invalid_body_is_refused_before_the_queue(clinic: Clinic) -> None:
    headers = bearer() | {"content-type": "application/json"}
    path = f"{BASE}/appointments"
    for content, status in ((b"{", 400), (b"[]", 422), (b'"x"', 422), (b'{"worker_id": 7}', 422), (b"", 422)):
        answer = await clinic.api.post(path, content=content, headers=headers)
        assert answer.status_code == status, (content, answer.text)
    other = await clinic.api.post(path, content=b"a=b", headers=bearer() | {"content-type": "text/plain"})
    assert other.status_code in (415, 422)


async def listed(clinic: Clinic, by: dict[str, str], **query: object) -> list[str]:
    answer = await clinic.send("GET", "/appointments", by=by, **query)
    assert answer.status_code == 200, answer.text
    return [one["appointment_id"] for one in answer.json()["appointments"]]


async def test_clients_list_their_own_and_workers_their_agenda(clinic: Clinic) -> None:
    ana, bia, account = uuid4(), uuid4(), uuid4()
    await clinic.api.get("/v1/me", headers=bearer("worker", account))
    own = await clinic.worker(user_id=str(account))
    nine = (await clinic.booked(ana, clinic.at("09:00"), worker_id=own))["appointment_id"]
    ten = (await clinic.booked(bia, clinic.at("10:00"), worker_id=own))["appointment_id"]
    eleven = (await clinic.booked(ana, clinic.at("11:00")))["appointment_id"]
    await clinic.act(ana, nine, "cancel")
    client, worker = bearer("passenger", ana), bearer("worker", account)
    assert await listed(clinic, client) == [nine, eleven], "canceled appointments are listed too"
    assert await listed(clinic, client, worker_id=own) == [nine]
    assert await listed(clinic, client, client_id=ana, worker_id=clinic.worker_id) == [eleven]
    assert await listed(clinic, worker, worker_id=own) == [nine, ten]
    assert await listed(clinic, worker, worker_id=own, client_id=bia) == [ten]
    assert await listed(clinic, worker) == [], "the worker has none as a client"
    assert await listed(clinic, worker, worker_id=clinic.worker_id) == []
    assert await listed(clinic, bearer("passenger", account), worker_id=own) == []
    operator = bearer("operator")
    assert await listed(clinic, operator, worker_id=own) == [nine, ten]
    assert await listed(clinic, operator, client_id=ana, service_id=clinic.service_id) == [nine, eleven]
    for by in (client, worker):
        refused = await clinic.send("GET", "/appointments", by=by, client_id=bia)
        assert refused.status_code == 403
    peeked = await clinic.send("GET", "/appointments", by=worker, client_id=bia, worker_id=clinic.worker_id)
    assert peeked.status_code == 403


async def test_a_list_is_paged_in_order_and_within_its_range(clinic: Clinic) -> None:
    client = uuid4()
    by = bearer("passenger", client)
    ids = [
        (await clinic.booked(client, clinic.at(clock)))["appointment_id"]
        for clock in ("11:00", "09:00", "10:00")
    ]
    in_order = [ids[1], ids[2], ids[0]]
    seen: list[str] = []
    query: dict[str, object] = {"limit": 2}
    while True:
        page = (await clinic.send("GET", "/appointments", by=by, **query)).json()
        seen += [one["appointment_id"] for one in page["appointments"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == in_order
    span = {"from_": clinic.at("09:30"), "to": clinic.at("11:00")}
    assert await listed(clinic, by, **span) == in_order[1:2]
    for wrong in ({"from_": clinic.at("11:00"), "to": clinic.at("11:00")}, {"after": "x"}, {"limit": 101}):
        assert (await clinic.send("GET", "/appointments", by=by, **wrong)).status_code == 422
