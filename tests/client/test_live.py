"""The socket against the real server with real rows, over connections that are cut anywhere."""

import asyncio
import random
from uuid import UUID, uuid4

import pytest

from catraca.client import Client, Live, Message, Ping
from catraca.domains.notifications.messages.store import insert_notifications
from catraca.domains.notifications.model import NewNotification
from catraca.events.live import StartedNotice
from catraca.platform.clock import now
from catraca.platform.database import Database
from catraca.roles.parts import Parts
from tests.client.people import FAROL_DA_BARRA, PRACA_DA_SE, person, token_of
from tests.client.proxy import Proxy, proxy_to
from tests.servers import on_one_stack, until

pytestmark = on_one_stack
WAIT_SECONDS = 60
MESSAGES = 60


async def notify(database: Database, user_id: UUID, count: int) -> None:
    """Insert `count` notifications as the notifier does."""
    notices = [StartedNotice(ride_id=uuid4(), message="Boa viagem!", started_at=now()) for _ in range(count)]
    new = [NewNotification(user_id, uuid4(), notice) for notice in notices]
    await database.run(lambda db: insert_notifications(db, new))


async def take(live: Live, count: int) -> list[Message]:
    async with asyncio.timeout(WAIT_SECONDS):
        return [await anext(live) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
async def test_cut_connection_loses_and_repeats_no_message(
    proxy: Proxy, database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    sub = uuid4()
    async with Client(proxy.url, token=token_of("passenger", sub)) as catraca:
        await catraca.own_id()
        await notify(database, sub, MESSAGES)
        kept = await catraca.notifications.page(since=0, limit=100)
        # The handshake response has a few hundred bytes, and so has a message.
        proxy.lifetimes = [chance.randint(1, 3000) for _ in range(40)]
        async with catraca.live(since=0, acknowledge=True) as live:
            came = await take(live, MESSAGES)
            assert live.connections > 5
    assert [message.seq for message in came] == list(range(1, MESSAGES + 1))
    assert [message.data for message in came] == [one.data for one in kept.items]


async def test_new_client_resumes_after_the_last_message_taken(api_url: str, database: Database) -> None:
    sub = uuid4()
    async with Client(api_url, token=token_of("passenger", sub)) as catraca:
        await catraca.own_id()
        await notify(database, sub, 5)
        async with catraca.live(since=0) as live:
            await take(live, 2)
        async with catraca.live(since=live.seq) as again:
            assert [message.seq for message in await take(again, 3)] == [3, 4, 5]


async def test_notifications_are_paged_and_marked_as_read(api_url: str, database: Database) -> None:
    sub = uuid4()
    async with Client(api_url, token=token_of("passenger", sub)) as catraca:
        await catraca.own_id()
        await notify(database, sub, 5)
        newest = await catraca.notifications.page(limit=2)
        assert ([one.seq for one in newest.items], newest.unread) == ([5, 4], 5)
        older = await catraca.notifications.page(before=newest.next)
        assert [one.seq for one in older.items] == [3, 2, 1]
        marked = await catraca.notifications.mark_read(5, up_to=2)
        assert (marked.marked, marked.unread) == ([1, 2, 5], 2)
        left = await catraca.notifications.page(since=0, unread=True)
        assert [one.seq for one in left.items] == [3, 4]


async def test_driver_and_passenger_follow_a_ride_over_cut_sockets(town: Parts) -> None:
    async with (
        proxy_to(town.settings.process.port) as proxy,
        person(proxy.url, "passenger") as passenger,
        person(proxy.url, "driver") as driver,
        passenger.live() as passenger_live,
        driver.live(acknowledge=True) as driver_live,
        asyncio.timeout(WAIT_SECONDS),
    ):
        here = Ping(lat=PRACA_DA_SE["pickup_lat"], lng=PRACA_DA_SE["pickup_lon"])
        assert (await driver_live.go_online(here)).online
        assert (await driver_live.ping(here)).accepted == 1
        ride = await passenger.rides.request(**PRACA_DA_SE, **FAROL_DA_BARRA)
        offer = await anext(driver_live)
        assert (offer.type, offer.data["ride_id"]) == ("matching.candidate_found", str(ride.ride_id))
        await until(lambda: _received(town.database, offer.data["offer_id"]))
        proxy.cut()
        await driver.rides.accept(ride.ride_id)
        messages = await _numbered(passenger_live, up_to="ride.matched")
        await driver_live.ping(here)
        while (seen := await anext(passenger_live)).type != "position":
            messages.append(seen)
        assert (seen.seq, seen.data["lat"], seen.data["lng"]) == (None, here.lat, here.lng)
        await driver.rides.arrive(ride.ride_id)
        proxy.cut()
        await driver.rides.start(ride.ride_id)
        await driver.rides.complete(ride.ride_id)
        messages += await _numbered(passenger_live, up_to="ride.completed")
        await driver.rides.confirm_cash(ride.ride_id)
        messages += await _numbered(passenger_live, up_to="ride.paid")
        steps = ["accepted", "matched", "arriving", "started", "completed", "paid"]
        assert [message.type for message in messages] == [f"ride.{step}" for step in steps]
        assert [message.seq for message in messages] == [1, 2, 3, 4, 5, 6]
        assert not (await driver_live.go_offline()).online


async def _numbered(live: Live, *, up_to: str) -> list[Message]:
    """Receive the numbered messages up to this type."""
    messages: list[Message] = []
    while not messages or messages[-1].type != up_to:
        message = await anext(live)
        messages += [message] if message.seq is not None else []
    return messages


async def _received(database: Database, offer_id: str) -> bool:
    async with database.connection() as db:
        return bool(
            await db.fetchval("SELECT count(*) FROM offer_receipts WHERE offer_id = $1", UUID(offer_id))
        )
