"""Each number once and in order, over real sockets: whatever is lost, repeated, overtaken or cut off."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from catraca.domains.location.positions.model import ShownPosition, encode_positions
from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL
from catraca.domains.notifications.sockets import hub, session
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.notifications.devices import Device, Room, opened, room_of
from tests.domains.rides.desk import Desk
from tests.servers import Stack, on_one_stack, until
from tests.support.http import served
from tests.support.outboxes import away
from tests.support.redis_server import PrivateRedis, private_redis
from tests.support.roles import own_parts

pytestmark = on_one_stack


@pytest.fixture
def told_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by himself while Redis speaks: what comes was announced."""
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked at all the time."""
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)


async def listening(room: Room) -> None:
    """Redis is heard from here on."""
    await until(lambda: room.hub._listener.connected)


@pytest.mark.usefixtures("told_only")
async def test_frames_equal_the_stored_rows(room: Room) -> None:
    ana = await room.newcomer()
    async with room.device(ana) as device:
        assert device.hello["data"] == {"seq": 0, "heartbeat_seconds": hub.HEARTBEAT_SECONDS}
        await listening(room)
        await room.tell_some(ana, 2)
        await room.tell_some(ana, 1)
        assert await device.seqs(3) == [1, 2, 3]
        assert device.heard[1:] == await room.frames_of(ana)


async def test_without_since_only_new_notifications_are_sent(room: Room) -> None:
    ana = await room.newcomer()
    await room.tell_some(ana, 3)
    async with room.device(ana) as device:
        assert device.hello["data"]["seq"] == 3
        await room.tell_some(ana, 1)
        assert await device.seqs(1) == [4]


@pytest.mark.parametrize(("since", "begins"), [(0, 0), (2, 2), (4, 4), (5, 5), (6, 5), (2**53 - 1, 5)])
async def test_since_sends_all_after_that_number(room: Room, since: int, begins: int) -> None:
    ana = await room.newcomer()
    await room.tell_some(ana, 5)
    async with room.device(ana, since=since) as device:
        assert device.hello["data"]["seq"] == begins
        assert await device.seqs(5 - begins) == list(range(begins + 1, 6))
        assert await device.is_silent()
        await room.tell_some(ana, 1)
        assert await device.seqs(1) == [6]


async def test_hello_shows_the_first_kept_number(room: Room) -> None:
    ana = await room.newcomer()
    await room.tell_some(ana, 5)
    await room.sql("DELETE FROM notifications WHERE user_id = $1 AND seq <= 3", ana.id)
    async with room.device(ana, since=1) as device:
        assert device.hello["data"]["seq"] == 3
        assert await device.seqs(2) == [4, 5]
    await room.sql("DELETE FROM notifications WHERE user_id = $1", ana.id)
    async with room.device(ana, since=1) as device:
        assert device.hello["data"]["seq"] == 5
        assert await device.is_silent()


async def test_all_devices_of_a_user_get_all_and_only_theirs(room: Room) -> None:
    ana, bia = await room.newcomer(), await room.newcomer()
    async with room.device(ana) as phone, room.device(ana) as tablet, room.device(bia) as other:
        await asyncio.gather(*(room.tell_some(one, 3) for one in (ana, bia, ana)))
        for device, someone, count in ((phone, ana, 6), (tablet, ana, 6), (other, bia, 3)):
            assert await device.seqs(count) == list(range(1, count + 1))
            assert device.heard[1:] == await room.frames_of(someone)
            assert await device.is_silent()


@pytest.mark.usefixtures("looking")
async def test_unannounced_rows_are_found_by_polling(room: Room) -> None:
    ana = await room.newcomer()
    async with room.device(ana) as device:
        await room.tell_some(ana, 2, loudly=False)
        assert await device.seqs(2) == [1, 2]


@pytest.mark.usefixtures("told_only")
async def test_gap_in_announcements_is_read_from_rows(room: Room) -> None:
    ana = await room.newcomer()
    async with room.device(ana) as device:
        await listening(room)
        await room.tell_some(ana, 2, loudly=False)
        await room.tell_some(ana, 1)
        assert await device.seqs(3) == [1, 2, 3]


@pytest.mark.usefixtures("told_only")
async def test_announcements_in_any_order_send_each_once(room: Room) -> None:
    ana = await room.newcomer()
    room.unheard.clear()
    async with room.device(ana) as device:
        await listening(room)
        for _ in range(4):
            await room.tell_some(ana, 1, loudly=False)
        await until(lambda: len(room.unheard) == 4)
        for place in (1, 0, 0, 3, 2, 3, 1):
            room.hub._on_announcements(room.unheard[place])
        assert await device.seqs(4) == [1, 2, 3, 4]
        assert await device.is_silent()


@pytest.mark.usefixtures("told_only")
async def test_burst_to_a_slow_reader_arrives_in_order(room: Room) -> None:
    ana = await room.newcomer()
    async with room.device(ana, max_queue=1) as device:
        await listening(room)
        for _ in range(3):
            await room.tell_some(ana, 60)
        assert await device.seqs(180) == list(range(1, 181))
        assert device.heard[1:] == await room.frames_of(ana)


async def test_quiet_socket_gets_heartbeats(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    async with opened(room.url, bearer()) as device:
        assert device.hello["data"]["heartbeat_seconds"] == 0.1
        assert await device.next() == {"type": "heartbeat", "data": {}}
        assert await device.next() == {"type": "heartbeat", "data": {}}


@pytest.mark.usefixtures("told_only")
@pytest.mark.parametrize("channel", [NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL])
async def test_garbage_on_a_channel_stops_no_delivery(room: Room, channel: str) -> None:
    ana = await room.newcomer()
    async with room.device(ana) as device:
        await listening(room)
        for garbage in (b"", b"\xc1", b"\x93\x01\x02\x03", b"hello"):
            await redis_pubsub.publish(room.parts.redis, channel, garbage)
        await room.tell_some(ana, 1)
        assert await device.seqs(1) == [1]
        assert room.hub._listener.connected


async def test_former_driver_does_not_see_the_next_drivers_position(room: Room) -> None:
    desk = Desk(room.api, room.database)
    first, second = await room.newcomer("driver"), await room.newcomer("driver")
    passenger = await room.newcomer()
    ride_id = await desk.request(passenger.id)
    await desk.offer(ride_id, first.id)
    assert (await desk.accept(ride_id, first.id)).status_code == 200

    async def show(driver_id: object) -> None:
        at = now()
        shown = ShownPosition(ride_id, passenger.id, driver_id, 1.0, 2.0, at, None, None, at)  # type: ignore[arg-type]
        await redis_pubsub.publish(room.parts.redis, POSITIONS_CHANNEL, encode_positions([shown]))

    async with room.device(first) as device, opened(room.url, bearer("operator")) as office:
        await listening(room)
        for one in (device, office):
            assert (await one.ask("subscribe", {"ride_id": str(ride_id)}))["type"] == "reply"
        await show(first.id)
        for one in (device, office):
            assert (await one.next())["data"]["driver_id"] == str(first.id)
        await desk.give_up(ride_id, first.id)
        await show(second.id)
        assert (await office.next())["data"]["driver_id"] == str(second.id)
        assert await device.is_silent()


@pytest.fixture(scope="module")
async def redis(stack: Stack) -> AsyncIterator[PrivateRedis]:
    async with private_redis(stack) as server:
        yield server


@pytest.fixture(scope="module")
async def shaky(stack: Stack, settings: Settings, redis: PrivateRedis) -> AsyncIterator[Room]:
    """A room with servers of its own, to take away."""
    async with (
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        room_of(parts, here) as room,
    ):
        yield room


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that is gone is noticed soon; while it is there, only what it says counts."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)
    monkeypatch.setattr(redis_pubsub, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(redis_pubsub, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(redis_pubsub, "RECONNECT_SECONDS", 0.05)


async def goes_on(room: Room, device: Device, someone: object) -> None:
    """What is told now arrives, next in line."""
    (written,) = await room.tell_some(someone, 1)  # type: ignore[arg-type]
    assert await device.seqs(1) == [written.seq]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("way", ["stopped", "frozen"])
async def test_hub_polls_while_redis_is_away_and_recovers(shaky: Room, redis: PrivateRedis, way: str) -> None:
    ana = await shaky.newcomer()
    async with shaky.device(ana) as device:
        await listening(shaky)
        await goes_on(shaky, device, ana)
        if way == "stopped":
            await redis.stop()
        else:
            redis.freeze()
        await until(lambda: not shaky.hub._listener.connected)
        for _ in range(3):
            await goes_on(shaky, device, ana)
        async with shaky.device(ana, since=0) as late:
            assert await late.seqs(4) == [1, 2, 3, 4]
        if way == "stopped":
            await redis.start()
        else:
            redis.thaw()
        await listening(shaky)
        await until(shaky.parts.redis.is_up)
        await goes_on(shaky, device, ana)


@pytest.mark.usefixtures("hasty")
async def test_hub_without_redis_polls(parts: Parts, room: Room) -> None:
    ana = await room.newcomer()
    async with (
        served(parts, redis_url=None) as here,
        room_of(parts, here) as quiet,
        quiet.device(ana) as device,
    ):
        await room.tell_some(ana, 2)
        assert await device.seqs(2) == [1, 2]


@pytest.mark.usefixtures("hasty")
async def test_sockets_survive_a_database_outage(
    shaky: Room, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(session, "RETRY_SECONDS", 0.05)
    ana = await shaky.newcomer()
    shaky.unheard.clear()
    async with shaky.device(ana) as device:
        await listening(shaky)
        for _ in range(2):
            await shaky.tell_some(ana, 1, loudly=False)
        await until(lambda: len(shaky.unheard) == 2)
        async with away(stack, shaky.database):
            assert not await shaky.database.is_up()
            shaky.hub._on_announcements(
                shaky.unheard[1]
            )  # so there is something before it, which cannot be read
            answer = await device.ask("ack", {"seq": 1})
            assert (answer["type"], answer["data"]["code"]) == ("error", "database_unavailable")
            assert await device.is_silent()
        assert await device.seqs(2) == [1, 2]
        assert (await device.ask("ack", {"seq": 1}))["data"] == {"seq": 1}


async def test_failed_hub_is_logged_and_restarted(
    parts: Parts, room: Room, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)
    ana = await room.newcomer()
    async with served(parts) as here, room_of(parts, here) as other:
        failed: list[object] = []

        async def fail_once(principals: object) -> list[bool]:
            if not failed:
                failed.append(other.hub._running)
                raise RuntimeError("a fault of ours")
            return [False]

        monkeypatch.setattr(other.hub, "_revoked", fail_once)
        async with other.device(ana) as device:
            await until(lambda: failed)
            # Between the two there is none, perhaps for less than a look.
            await until(lambda: other.hub._running not in (None, *failed))
            await listening(other)
            await other.tell_some(ana, 1)
            assert await device.seqs(1) == [1]
    assert "hub_failed" in capsys.readouterr().out
