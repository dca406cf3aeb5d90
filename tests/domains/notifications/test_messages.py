"""Rows of notifications: numbers without gaps, access, retention and erasure."""

import asyncio
import random
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from catraca.domains import people, rides
from catraca.domains.notifications import INVARIANTS
from catraca.domains.notifications.messages import store
from catraca.domains.notifications.messages.store import prune_notifications
from catraca.domains.notifications.model import SourceEvent
from catraca.domains.notifications.sockets.store import prune_tickets
from catraca.domains.people.accounts.service import erase_user
from catraca.events import CandidateFound, OfferSent, RideArriving, RideMatched, RideReassigning
from catraca.events.catalogue import example_of
from catraca.platform.bus import Message
from catraca.platform.database.invariants import check_invariants
from catraca.platform.event import Event, encode, key_of
from catraca.platform.ids import new_id
from catraca.roles.api import PERSONAL_DATA
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.notifications.devices import LiveServer, started
from tests.domains.people.person import Person
from tests.domains.rides.desk import Desk
from tests.servers import Stack, on_one_stack, until
from tests.support.roles import own_parts, working

pytestmark = on_one_stack

MONTH = timedelta(days=30)


async def seqs_of(live_server: LiveServer, user: Person) -> list[int]:
    rows = await live_server.sql("SELECT seq FROM notifications WHERE user_id = $1 ORDER BY seq", user.id)
    return [row["seq"] for row in rows]


async def get(live_server: LiveServer, user: Person, **query: Any) -> Any:
    answer = await live_server.api.get("/v1/notifications", params=query, headers=user.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def mark(live_server: LiveServer, user: Person, **body: Any) -> Any:
    answer = await live_server.api.post("/v1/notifications/read", json=body, headers=user.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(page: Any) -> list[int]:
    return [one["seq"] for one in page["items"]]


async def test_concurrent_inserts_leave_no_gap(live_server: LiveServer) -> None:
    crowd = [await live_server.newcomer() for _ in range(5)]
    dice = random.Random(7)

    async def notify_in_some_order() -> None:
        some = [one for one in crowd for _ in range(dice.randint(0, 3))]
        dice.shuffle(some)
        await live_server.notify(*(started(one.id) for one in some), announced=False)
        notified.extend(some)

    notified: list[Person] = []
    await asyncio.gather(*(notify_in_some_order() for _ in range(40)))
    for one in crowd:
        assert await seqs_of(live_server, one) == list(range(1, notified.count(one) + 1))


async def test_rollback_uses_no_number(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 1)

    async def fail(db: Any) -> None:
        await live_server.notifier().notify(db, [SourceEvent(new_id(), started(ana.id))])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await live_server.database.run(fail)
    await live_server.notify_user(ana, 1)
    assert await seqs_of(live_server, ana) == [1, 2]


def message_of(event: Event) -> Message:
    return Message(
        id=new_id(),
        exchange=event.exchange,
        key=key_of(type(event)),
        body=encode(event),
        queue="notification_rides_queue",
    )


async def test_repeated_event_notifies_once(stack: Stack, settings: Settings) -> None:
    async with own_parts(stack, settings) as parts:
        await parts.bus.declare()
        ana = uuid4()
        await parts.database.run(
            lambda db: people.ensure_user(db, ana, roles=["passenger"], driver_approval="automatic")
        )
        first, second = message_of(started(ana)), message_of(started(ana))
        await parts.bus.publish([first, first, second, first])
        async with working(parts, ["notifier"]):
            await until(lambda: _count(parts, 2))
            await parts.bus.publish([second, first])
            last = message_of(started(ana))
            await parts.bus.publish([last])
            await until(lambda: _is_notified(parts, last.id))
            assert await _count(parts, 3)


async def _count(parts: Parts, count: int) -> bool:
    async with parts.database.connection() as db:
        return await db.fetchval("SELECT count(*) FROM notifications") == count


async def _is_notified(parts: Parts, event_id: UUID) -> bool:
    async with parts.database.connection() as db:
        return await db.fetchval("SELECT EXISTS (SELECT FROM notifications WHERE event_id = $1)", event_id)


async def test_ended_offer_is_not_notified(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    ride_id, (late, quick) = await desk.offered(2)
    offers = [event for event in await desk.events(ride_id) if isinstance(event, CandidateFound)]
    await desk.let_lapse(ride_id, late)
    written = await live_server.notify(*offers)
    assert [(one.user_id, one.seq) for one in written] == [(quick, 1)]


async def test_erasure_excludes_concurrent_notifications(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    notifying: asyncio.Task[Any] | None = None
    async with live_server.database.transaction() as db:
        await erase_user(db, people.UserId(ana.id), PERSONAL_DATA, by=ana.id)
        notifying = asyncio.create_task(live_server.notify_user(ana, 1))
        await until(lambda: _lock_is_waited_for(live_server))
    assert await notifying == []
    assert await live_server.notify_user(ana, 1) == []


async def _lock_is_waited_for(live_server: LiveServer) -> bool:
    (row,) = await live_server.sql("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted) AS found")
    return row["found"]


async def test_erasure_deletes_rows_and_the_name_in_others(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    passenger, driver = (
        await live_server.newcomer(),
        await live_server.newcomer("driver", name="João da Silva"),
    )
    ride_id = await desk.request(passenger.id)
    await desk.offer(ride_id, driver.id)
    assert (await desk.accept(ride_id, driver.id)).status_code == 200
    matched = replace_ids(example_of(RideMatched), ride_id, passenger.id, driver.id)
    await live_server.notify(matched, started(passenger.id))
    assert "João" in str(await get(live_server, passenger))
    await desk.drive_to("COMPLETED", ride_id, driver.id)
    exported = await live_server.api.get("/v1/me/export", headers=driver.headers)
    assert [one["type"] for one in exported.json()["sections"]["notifications"]] == ["ride.accepted"]
    assert (await live_server.api.delete("/v1/me", headers=driver.headers)).status_code == 204
    assert await seqs_of(live_server, driver) == []
    left = await get(live_server, passenger)
    assert numbers(left) == [3, 2, 1]
    assert "João" not in str(left)
    await live_server.database.run(lambda db: store.erase_notifications(db, driver.id))
    assert await get(live_server, passenger) == left, "a repeat changes nothing"


async def test_driver_loses_the_pickup_with_the_ride(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    passenger, driver = await live_server.newcomer(), await live_server.newcomer("driver")
    ride_id = await desk.request(passenger.id)
    await desk.offer(ride_id, driver.id)
    assert (await desk.accept(ride_id, driver.id)).status_code == 200
    matched = replace_ids(example_of(RideMatched), ride_id, passenger.id, driver.id)
    await live_server.notify(matched)
    data = (await get(live_server, driver))["items"][0]["data"]
    assert (data["passenger_id"], data["pickup_location"]["lat"]) == (str(passenger.id), -12.9777)
    await desk.give_up(ride_id, driver.id)
    await live_server.notify(
        *(event for event in await desk.events(ride_id) if isinstance(event, RideReassigning))
    )
    cleared = data | {"passenger_id": None, "pickup_location": None}
    assert (await get(live_server, driver))["items"][0]["data"] == cleared
    await live_server.notify(matched)
    assert (await get(live_server, driver))["items"][0]["data"] == cleared, "a late `ride.matched`"


def replace_ids(event: Any, ride_id: UUID, rider_id: UUID, driver_id: UUID) -> Any:
    return msgspec.structs.replace(event, ride_id=ride_id, rider_id=rider_id, driver_id=driver_id)


async def test_pruning_waits_for_a_locked_row(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 6)
    await live_server.sql(
        "UPDATE notifications SET created_at = created_at - $2::interval WHERE user_id = $1 AND seq < 5",
        ana.id,
        MONTH * 2,
    )
    async with live_server.database.transaction() as db:
        await store.mark_read(db, ana.id, seqs=[2], up_to=0, limit=10)
        pruning = asyncio.create_task(
            live_server.database.run(lambda db: prune_notifications(db, older_than=MONTH))
        )
        await until(lambda: pruning.done() or _lock_is_waited_for(live_server))
    assert await pruning >= 4
    assert await seqs_of(live_server, ana) == [5, 6]
    await live_server.notify_user(ana, 1)
    assert await seqs_of(live_server, ana) == [5, 6, 7]


async def test_bounded_pruning_leaves_no_gap(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PRUNED_AT_ONCE", 3)
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 5)
    # The same time for all: only the numbers give the order.
    await live_server.sql("UPDATE notifications SET created_at = '2001-01-01' WHERE user_id = $1", ana.id)
    await live_server.sql(
        "UPDATE notifications SET read_at = created_at WHERE user_id = $1 AND seq = 1", ana.id
    )
    assert await live_server.database.run(lambda db: prune_notifications(db, older_than=MONTH)) == 3
    assert await seqs_of(live_server, ana) == [4, 5]
    assert await live_server.database.run(lambda db: prune_notifications(db, older_than=MONTH)) == 2


async def test_expired_tickets_are_pruned(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    await live_server.ticket(ana)
    await live_server.ticket(ana)
    await live_server.sql(
        "UPDATE ws_tickets SET expires_at = clock_timestamp() WHERE digest ="
        " (SELECT digest FROM ws_tickets WHERE user_id = $1 LIMIT 1)",
        ana.id,
    )
    assert await live_server.database.run(prune_tickets) >= 1
    (left,) = await live_server.sql("SELECT count(*) AS n FROM ws_tickets WHERE user_id = $1", ana.id)
    assert left["n"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM notifications WHERE user_id = $1 AND seq = 2",
        "DELETE FROM notifications WHERE user_id = $1 AND seq = 3",
        "UPDATE notification_heads SET seq = seq + 1 WHERE user_id = $1",
    ],
    ids=["a hole", "the last row deleted", "a number without a row"],
)
async def test_doctor_finds_a_gap(stack: Stack, settings: Settings, damage: str) -> None:
    async with own_parts(stack, settings) as parts:
        ana = uuid4()
        await parts.database.run(
            lambda db: people.ensure_user(db, ana, roles=["passenger"], driver_approval="automatic")
        )
        notifier = LiveServer(parts, None, None, parts.redis).notifier(announced=False)  # type: ignore[arg-type]
        await parts.database.run(
            lambda db: notifier.notify(db, [SourceEvent(new_id(), started(ana)) for _ in range(3)])
        )
        assert {one.state for one in await check_invariants(parts.database, INVARIANTS)} == {"held"}
        async with parts.database.connection() as db:
            await db.execute(damage, ana)
        states = {one.rule.name: one.state for one in await check_invariants(parts.database, INVARIANTS)}
        assert states["notifications are numbered without gaps"] == "broken"


async def test_pages_go_down_from_the_newest_or_up_from_since(live_server: LiveServer) -> None:
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    await live_server.notify_user(ana, 7)
    await live_server.notify_user(bia, 1)
    page = await get(live_server, ana, limit=3)
    assert (numbers(page), page["next"], page["unread"]) == ([7, 6, 5], 5, 7)
    page = await get(live_server, ana, limit=3, before=page["next"])
    assert (numbers(page), page["next"]) == ([4, 3, 2], 2)
    page = await get(live_server, ana, limit=3, before=page["next"])
    assert (numbers(page), page["next"]) == ([1], None)
    page = await get(live_server, ana, limit=3, since=2)
    assert (numbers(page), page["next"]) == ([3, 4, 5], 5)
    page = await get(live_server, ana, limit=3, since=5)
    assert (numbers(page), page["next"]) == ([6, 7], None)
    assert numbers(await get(live_server, ana, since=7)) == []
    assert numbers(await get(live_server, ana, since=2, before=5)) == [3, 4]
    assert numbers(await get(live_server, bia)) == [1]


async def test_page_has_the_same_data_as_the_socket(live_server: LiveServer) -> None:
    ana = await live_server.newcomer(language="en")
    (written,) = await live_server.notify_user(ana, 1)
    (shown,) = (await get(live_server, ana))["items"]
    assert shown["data"]["message"] == "Your ride has begun. Have a good trip!"
    assert (shown["seq"], shown["type"], shown["read_at"]) == (1, "ride.started", None)
    assert await live_server.frames_of(ana) == [written.frame.decode()]


async def test_marking_as_read_is_idempotent_and_per_user(live_server: LiveServer) -> None:
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    await live_server.notify_user(ana, 5)
    await live_server.notify_user(bia, 5)
    assert await mark(live_server, ana, seqs=[4, 4, 99]) == {"marked": [4], "unread": 4}
    assert await mark(live_server, ana, up_to=2) == {"marked": [1, 2], "unread": 2}
    first = (await get(live_server, ana))["items"]
    assert await mark(live_server, ana, up_to=2, seqs=[4]) == {"marked": [], "unread": 2}
    assert (await get(live_server, ana))["items"] == first, "`read_at` does not change either"
    assert numbers(await get(live_server, ana, unread=True)) == [5, 3]
    assert (await get(live_server, bia))["unread"] == 5
    both = await asyncio.gather(mark(live_server, ana, up_to=5), mark(live_server, ana, up_to=5))
    assert sorted(one["marked"] for one in both) == [[], [3, 5]]


@pytest.mark.parametrize(
    "body", [{"seqs": [10**30]}, {"seqs": [0]}, {"up_to": -1}, {"up_to": 2**63}, {"x": 1}]
)
async def test_invalid_numbers_are_refused(live_server: LiveServer, body: dict[str, Any]) -> None:
    answer = await live_server.api.post("/v1/notifications/read", json=body, headers=bearer())
    assert answer.status_code in (400, 422)


async def test_concurrent_acknowledgements_publish_once(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    driver = await live_server.newcomer("driver")
    ride_id = await desk.request()
    await desk.offer(ride_id, driver.id)
    offers = [event for event in await desk.events(ride_id) if isinstance(event, CandidateFound)]
    arriving = replace_ids(example_of(RideArriving), ride_id, driver.id, driver.id)
    async with live_server.device(driver) as phone, live_server.device(driver) as tablet:
        await live_server.notify(*offers, arriving)
        for device in (phone, tablet):
            assert await device.seqs(2) == [1, 2]
        replies = await asyncio.gather(*(one.ask("ack", {"seq": 2}) for one in (phone, tablet)))
        assert [one["data"] for one in replies] == [{"seq": 2}] * 2
        assert (await phone.ask("ack", {"seq": 1}))["data"] == {"seq": 2}, "it never decreases"
        assert (await phone.ask("ack", {"seq": 99}))["data"] == {"seq": 2}, "nor exceeds the last number"
    sent = [event for event in await desk.events(ride_id) if key_of(type(event)) == "matching.offer_sent"]
    assert [event.offer_id for event in sent] == [offers[0].offer_id]  # type: ignore[attr-defined]


async def test_offer_is_acknowledged_once(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    ride_id, (driver_id,) = await desk.offered()
    offers = [event.offer_id for event in await desk.events(ride_id) if isinstance(event, CandidateFound)]
    await asyncio.gather(
        *(
            live_server.database.run(lambda db: rides.acknowledge_offers(db, [*offers, uuid4()]))
            for _ in range(4)
        )
    )
    sent = [event for event in await desk.events(ride_id) if isinstance(event, OfferSent)]
    assert [(event.offer_id, event.driver_id) for event in sent] == [(offers[0], driver_id)]


async def test_acknowledging_lower_numbers_skips_the_offer(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    driver = await live_server.newcomer("driver")
    ride_id = await desk.request()
    await desk.offer(ride_id, driver.id)
    offers = [event for event in await desk.events(ride_id) if isinstance(event, CandidateFound)]
    async with live_server.device(driver) as device:
        await live_server.notify(started(driver.id), *offers)
        assert await device.seqs(2) == [1, 2]
        assert (await device.ask("ack", {"seq": 1}))["data"] == {"seq": 1}
        assert "matching.offer_sent" not in [key_of(type(event)) for event in await desk.events(ride_id)]
        await device.ask("ack", {"seq": 2})
        assert "matching.offer_sent" in [key_of(type(event)) for event in await desk.events(ride_id)]
