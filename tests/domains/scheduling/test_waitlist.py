"""The waitlist: freed time is offered to the longest wait."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from catraca.domains.scheduling import jobs
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.waitlist import OFFER_TTL, Line, cancel, taken


async def test_canceled_time_is_offered_to_the_longest_wait(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second = await line.join(), await line.join()
    assert [(await line.entry(client))["position"] for client in (first, second)] == [1, 2]
    async with line.dispatching():
        await line.settled()
        await cancel(clinic, *owner)
        offer = (await line.becomes(first, "OFFERED"))["offer"]
        await line.settled()
    assert moment(offer["starts_at"]) == moment(clinic.at("09:00"))
    left = moment(offer["expires_at"]) - datetime.now(UTC)
    assert OFFER_TTL - timedelta(minutes=1) < left <= OFFER_TTL
    assert await line.status(second) == "WAITING"
    for other in (second, uuid4()):
        assert (await clinic.book(other, clinic.at("09:00"))).status_code == 409
    booked = await clinic.booked(first, clinic.at("09:00"), hold_id=offer["hold_id"])
    entry = await line.entry(first)
    assert (entry["status"], entry["appointment_id"]) == ("BOOKED", booked["appointment_id"])
    assert entry["offer"] is None


async def test_the_client_is_notified_of_the_offer_and_its_expiry(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    client = await line.join()
    await cancel(clinic, *owner)
    async with line.dispatching():
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    [event] = await clinic.sql(
        "SELECT routing_key, body FROM outbox WHERE aggregate_id = $1"
        " UNION ALL SELECT routing_key, body FROM outbox_sent WHERE aggregate_id = $1",
        UUID(offer["hold_id"]),
    )
    body = json.loads(event["body"])
    assert event["routing_key"] == "appointment.slot_offered"
    assert body["client_id"] == str(client)
    assert moment(body["expires_at"]) == moment(offer["expires_at"])


async def test_a_declined_offer_goes_to_the_next_and_is_not_repeated(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second, third = [await line.join() for _ in range(3)]
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(first, "OFFERED")
        await line.give_back(first)
        await line.becomes(second, "OFFERED")
        assert [(await line.entry(client))["position"] for client in (third, first)] == [1, 2]
        for client in (second, third):
            await line.becomes(client, "OFFERED")
            await line.give_back(client)
        await line.settled()
    # All entries declined it: it is free for everyone, and the entries keep waiting.
    assert [(await line.entry(client))["position"] for client in (first, second, third)] == [1, 2, 3]
    await clinic.booked(uuid4(), clinic.at("09:00"))


async def test_a_declined_client_keeps_waiting_for_other_slots(clinic: Clinic, line: Line) -> None:
    early, late = await taken(clinic, "09:00"), await taken(clinic, "10:00")
    client = await line.join("09:00", "10:30")
    async with line.dispatching():
        await cancel(clinic, *early)
        await line.becomes(client, "OFFERED")
        await line.give_back(client)
        await line.settled()
        assert await line.status(client) == "WAITING"
        await clinic.booked(uuid4(), clinic.at("09:00"))
        await cancel(clinic, *late)
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert moment(offer["starts_at"]) == moment(clinic.at("10:00"))


async def test_an_offer_that_lapses_goes_to_the_next_and_ends_the_wait(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second = await line.join(), await line.join()
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(first, "OFFERED")
        await line.let_offer_lapse(first)
        await line.becomes(second, "OFFERED")
    assert await line.status(first) == "EXPIRED"


async def test_an_expired_offer_is_bookable_before_its_timer_fires(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    client = await line.join()
    async with line.dispatching():
        await cancel(clinic, *owner)
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    await clinic.let_lapse(offer["hold_id"])
    await clinic.booked(uuid4(), clinic.at("09:00"))
    assert await line.status(client) == "EXPIRED"


async def test_an_offer_ends_when_the_time_itself_has_come(clinic: Clinic, line: Line) -> None:
    service_id = await clinic.service(duration_minutes=30, slot_step_minutes=1)
    around_the_clock = [{"weekday": weekday, "start": "00:00", "end": "24:00"} for weekday in range(1, 8)]
    worker_id = await clinic.worker(rules=around_the_clock)
    await clinic.serves(worker_id, service_id)
    soon = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=5)
    client, wish = uuid4(), {"service_id": service_id, "worker_id": worker_id}
    joined = await line.ask(client, soon.isoformat(), (soon + timedelta(minutes=1)).isoformat(), **wish)
    assert joined.status_code == 201, joined.text
    async with line.dispatching():
        offer = (await line.becomes(client, "OFFERED"))["offer"]
    assert moment(offer["expires_at"]) == moment(offer["starts_at"]) == soon


async def test_declined_slots_are_remembered_during_the_wait(clinic: Clinic, line: Line) -> None:
    client = await line.join()
    entry_id = UUID((await line.entry(client))["entry_id"])

    async def kept_slots() -> int:
        """Prune as the housekeeper does two days later; returns the number of declined slots kept."""
        async with clinic.parts.database.transaction() as db:
            await db.execute(
                "UPDATE appointments SET changed_at = changed_at - interval '2 days'"
                " WHERE waitlist_entry_id = $1",
                entry_id,
            )
            await jobs.prune_holds(db)
            return await db.fetchval(
                "SELECT count(*) FROM appointments WHERE waitlist_entry_id = $1", entry_id
            )

    async with line.dispatching():
        await line.becomes(client, "OFFERED")
        await line.give_back(client)
        await line.settled()
    assert await kept_slots() == 1
    await line.leave(client)
    assert await kept_slots() == 0


async def test_an_offer_does_not_count_as_a_clients_hold(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    client = await line.join()
    most = clinic.parts.settings.scheduling.max_holds
    for hour in range(most):
        assert (await clinic.hold(client, clinic.at(f"{12 + hour}:00"))).status_code == 201
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(client, "OFFERED")
    refused = await clinic.hold(client, clinic.at("17:00"))
    assert refused.json() | {"limit": most, "code": "too_many_holds"} == refused.json()


async def test_a_left_waitlist_entry_gets_no_offer(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second = await line.join(), await line.join()
    path = f"{BASE}/waitlist/{(await line.entry(first))['entry_id']}"
    assert (await clinic.api.delete(path, headers=bearer("passenger", second))).status_code == 404
    for _ in range(2):
        assert (await clinic.api.delete(path, headers=bearer("passenger", first))).status_code == 204
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(second, "OFFERED")
    assert await line.status(first) == "CANCELED"


async def test_leaving_the_waitlist_releases_its_offer(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second = await line.join(), await line.join()
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(first, "OFFERED")
        await line.leave(first)
        await line.becomes(second, "OFFERED")
    assert await line.status(first) == "CANCELED"


async def test_a_wait_ends_with_its_range(clinic: Clinic, line: Line) -> None:
    client = uuid4()
    today = datetime.now(UTC).replace(microsecond=0)
    ahead = await line.ask(client, (today - timedelta(hours=2)).isoformat(), today.isoformat())
    assert ahead.json()["status"] == "WAITING"
    async with line.dispatching():
        await line.becomes(client, "EXPIRED")


async def test_operators_see_the_whole_line_a_page_at_a_time(clinic: Clinic, line: Line) -> None:
    clients = [await line.join() for _ in range(3)]
    seen, after = [], None
    while True:
        params = {"service_id": str(clinic.service_id), "limit": "2"} | ({"after": after} if after else {})
        page = await clinic.api.get(
            f"{BASE}/waitlist", params=params, headers=bearer("operator", clinic.operator)
        )
        seen += [one["client_id"] for one in page.json()["entries"]]
        after = page.json()["next"]
        if after is None:
            break
    assert seen == [str(client) for client in clients]


async def test_waitlist_entries_per_client_are_limited(clinic: Clinic, line: Line) -> None:
    client = uuid4()
    for _ in range(20):
        await line.join(client=client)
    refused = await line.ask(client, clinic.at("09:00"), clinic.at("09:30"))
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_waits")


async def test_a_range_has_an_order_and_a_length(clinic: Clinic, line: Line) -> None:
    backwards = await line.ask(uuid4(), clinic.at("10:00"), clinic.at("09:00"))
    assert (backwards.status_code, backwards.json()["code"]) == (422, "range_invalid")
    endless = await line.ask(uuid4(), clinic.at("10:00"), clinic.at("10:00", days=93))
    assert (endless.status_code, endless.json()["code"]) == (422, "range_too_long")


async def test_erasure_ends_waitlist_entries(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first, second = await line.join(), await line.join()
    async with line.dispatching():
        await cancel(clinic, *owner)
        await line.becomes(first, "OFFERED")
        export = await clinic.api.get("/v1/me/export", headers=bearer("passenger", first))
        [entry] = export.json()["sections"]["appointments"]["waited_for"]
        assert entry["status"] == "OFFERED"
        gone = await clinic.api.delete("/v1/me", headers=bearer("passenger", first))
        assert gone.status_code < 300, gone.text
        await line.becomes(second, "OFFERED")
    rows = await clinic.sql("SELECT status FROM waitlist_entries WHERE client_id = $1", first)
    assert [row["status"] for row in rows] == ["CANCELED"]
