"""Races for freed time: one offer, one booking."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

from catraca.domains.scheduling.waitlist import service as waitlist
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.races import RULES
from tests.domains.scheduling.waitlist import Line, cancel, invariants_hold, taken
from tests.servers import until


async def test_a_late_join_does_not_overtake_earlier_entries(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    first = await line.join()
    async with line.dispatching():
        await line.settled()
    await cancel(clinic, *owner)
    newcomer = await line.join()
    async with clinic.parts.database.transaction() as db:
        entry_id = UUID((await line.entry(newcomer))["entry_id"])
        await waitlist.search_for_entry(db, entry_id, limits=RULES.limits)
    async with line.dispatching():
        await line.becomes(first, "OFFERED")
        await line.settled()
    assert await line.status(newcomer) == "WAITING"


async def test_client_gets_the_next_offer_after_the_first_ended(clinic: Clinic, line: Line) -> None:
    owners = [await taken(clinic, clock) for clock in ("09:00", "11:00")]
    client = await line.join("09:00", "09:30")
    await line.join("11:00", "11:30", client=client)
    async with line.dispatching(2):
        await asyncio.gather(*(cancel(clinic, *owner) for owner in owners))
        await line.settled()
        [offered] = [one for one in await line.entries(client) if one["status"] == "OFFERED"]
        offer = offered["offer"]
        await clinic.booked(client, offer["starts_at"], hold_id=offer["hold_id"])
        await line.settled()
    assert sorted(one["status"] for one in await line.entries(client)) == ["BOOKED", "OFFERED"]


async def test_two_dispatchers_make_one_offer_per_slot_in_order(clinic: Clinic, line: Line) -> None:
    clocks = ["09:00", "10:00", "11:00", "12:00"]
    owners = [await taken(clinic, clock) for clock in clocks]
    waiting = [await line.join("09:00", "12:30") for _ in range(7)]
    async with line.dispatching(2):
        await line.settled()
        await asyncio.gather(*(cancel(clinic, *owner) for owner in owners))
        await line.settled()
    assert [await line.status(client) for client in waiting] == ["OFFERED"] * 4 + ["WAITING"] * 3
    offered = [(await line.entry(client))["offer"]["starts_at"] for client in waiting[:4]]
    assert sorted(moment(one) for one in offered) == [moment(clinic.at(clock)) for clock in clocks]
    assert await clinic.overlaps() == []
    await invariants_hold(clinic)


async def test_a_direct_booking_and_a_waitlist_offer_have_one_winner(clinic: Clinic, line: Line) -> None:
    async with line.dispatching(2):
        for _ in range(6):
            owner = await taken(clinic)
            client = await line.join()
            await line.settled()
            strangers = [uuid4() for _ in range(3)]
            _, *answers = await asyncio.gather(
                cancel(clinic, *owner), *(clinic.book(one, clinic.at("09:00")) for one in strangers)
            )
            await line.settled()
            won = [
                (winner_id, answer.json()["appointment_id"])
                for winner_id, answer in zip(strangers, answers, strict=True)
                if answer.status_code == 201
            ]
            assert (len(won), await line.status(client)) in [(1, "WAITING"), (0, "OFFERED")]
            for winner_id, appointment_id in won:
                await cancel(clinic, winner_id, appointment_id)
            await line.becomes(client, "OFFERED")
            await line.leave(client)
            await line.settled()
    assert await clinic.overlaps() == []


async def test_concurrent_book_and_release_of_an_offer_do_one(clinic: Clinic, line: Line) -> None:
    for clock in ("09:00", "10:00", "11:00", "12:00"):
        first, second = await line.join(clock, clock[:3] + "30"), await line.join(clock, clock[:3] + "30")
        async with line.dispatching(2):
            offer = (await line.becomes(first, "OFFERED"))["offer"]
            hold = f"{BASE}/holds/{offer['hold_id']}"
            booked, _ = await asyncio.gather(
                clinic.book(first, clinic.at(clock), hold_id=offer["hold_id"]),
                clinic.api.delete(hold, headers=bearer("passenger", first)),
            )
            await line.settled()
        statuses = await line.status(first), await line.status(second)
        if booked.status_code == 201:
            assert statuses in [("BOOKED", "WAITING"), ("WAITING", "WAITING")]
        else:
            assert statuses == ("WAITING", "OFFERED")
    assert await clinic.overlaps() == []
    await invariants_hold(clinic)


async def test_leaving_during_an_offer_gets_no_offer(clinic: Clinic, line: Line) -> None:
    owner = await taken(clinic)
    client = await line.join()
    async with line.dispatching():
        await line.settled()
    await cancel(clinic, *owner)

    async def dispatcher_waits_for_the_row() -> bool:
        waiting_for_a_row = "wait_event_type = 'Lock' AND query LIKE '%waitlist_entries%FOR NO KEY UPDATE%'"
        return bool(await clinic.sql(f"SELECT FROM pg_stat_activity WHERE {waiting_for_a_row}"))

    async with AsyncExitStack() as leaving:
        db = await leaving.enter_async_context(clinic.parts.database.transaction())
        entry_id = UUID((await line.entry(client))["entry_id"])
        await waitlist.leave_waitlist(db, await waitlist.get_entry(db, entry_id))
        async with line.dispatching():
            await until(dispatcher_waits_for_the_row)
            await leaving.aclose()
            await line.settled()
    assert await line.status(client) == "CANCELED"
    await clinic.booked(uuid4(), clinic.at("09:00"))
