"""Each number arrives once and in order, over real sockets, also after losses, repeats and outages."""

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
from tests.domains.notifications.devices import Device, LiveServer, open_live_server, opened
from tests.domains.rides.desk import Desk
from tests.servers import Stack, on_one_stack, until
from tests.support.http import served
from tests.support.outboxes import away
from tests.support.redis_server import PrivateRedis, private_redis
from tests.support.roles import own_parts

pytestmark = on_one_stack


@pytest.fixture
def announced_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No polling while Redis is up: all frames come from announcements."""
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)


@pytest.fixture
def polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll the rows all the time."""
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)


async def listening(live_server: LiveServer) -> None:
    """Wait until the hub is subscribed to Redis."""
    await until(lambda: live_server.hub._listener.connected)


@pytest.mark.usefixtures("announced_only")
async def test_frames_equal_the_stored_rows(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana) as device:
        assert device.hello["data"] == {"seq": 0, "heartbeat_seconds": hub.HEARTBEAT_SECONDS}
        await listening(live_server)
        await live_server.notify_user(ana, 2)
        await live_server.notify_user(ana, 1)
        assert await device.seqs(3) == [1, 2, 3]
        assert device.received[1:] == await live_server.frames_of(ana)


async def test_without_since_only_new_notifications_are_sent(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 3)
    async with live_server.device(ana) as device:
        assert device.hello["data"]["seq"] == 3
        await live_server.notify_user(ana, 1)
        assert await device.seqs(1) == [4]


@pytest.mark.parametrize(("since", "begins"), [(0, 0), (2, 2), (4, 4), (5, 5), (6, 5), (2**53 - 1, 5)])
async def test_since_sends_all_after_that_number(live_server: LiveServer, since: int, begins: int) -> None:
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 5)
    async with live_server.device(ana, since=since) as device:
        assert device.hello["data"]["seq"] == begins
        assert await device.seqs(5 - begins) == list(range(begins + 1, 6))
        assert await device.is_silent()
        await live_server.notify_user(ana, 1)
        assert await device.seqs(1) == [6]


async def test_hello_shows_the_first_kept_number(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    await live_server.notify_user(ana, 5)
    await live_server.sql("DELETE FROM notifications WHERE user_id = $1 AND seq <= 3", ana.id)
    async with live_server.device(ana, since=1) as device:
        assert device.hello["data"]["seq"] == 3
        assert await device.seqs(2) == [4, 5]
    await live_server.sql("DELETE FROM notifications WHERE user_id = $1", ana.id)
    async with live_server.device(ana, since=1) as device:
        assert device.hello["data"]["seq"] == 5
        assert await device.is_silent()


async def test_all_devices_of_a_user_get_all_and_only_theirs(live_server: LiveServer) -> None:
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    async with (
        live_server.device(ana) as phone,
        live_server.device(ana) as tablet,
        live_server.device(bia) as other,
    ):
        await asyncio.gather(*(live_server.notify_user(one, 3) for one in (ana, bia, ana)))
        for device, user, count in ((phone, ana, 6), (tablet, ana, 6), (other, bia, 3)):
            assert await device.seqs(count) == list(range(1, count + 1))
            assert device.received[1:] == await live_server.frames_of(user)
            assert await device.is_silent()


@pytest.mark.usefixtures("polling")
async def test_unannounced_rows_are_found_by_polling(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana) as device:
        await live_server.notify_user(ana, 2, announced=False)
        assert await device.seqs(2) == [1, 2]


@pytest.mark.usefixtures("announced_only")
async def test_gap_in_announcements_is_read_from_rows(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana) as device:
        await listening(live_server)
        await live_server.notify_user(ana, 2, announced=False)
        await live_server.notify_user(ana, 1)
        assert await device.seqs(3) == [1, 2, 3]


@pytest.mark.usefixtures("announced_only")
async def test_announcements_in_any_order_send_each_once(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    live_server.unannounced.clear()
    async with live_server.device(ana) as device:
        await listening(live_server)
        for _ in range(4):
            await live_server.notify_user(ana, 1, announced=False)
        await until(lambda: len(live_server.unannounced) == 4)
        for place in (1, 0, 0, 3, 2, 3, 1):
            live_server.hub._on_announcements(live_server.unannounced[place])
        assert await device.seqs(4) == [1, 2, 3, 4]
        assert await device.is_silent()


@pytest.mark.usefixtures("announced_only")
async def test_burst_to_a_slow_reader_arrives_in_order(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana, max_queue=1) as device:
        await listening(live_server)
        for _ in range(3):
            await live_server.notify_user(ana, 60)
        assert await device.seqs(180) == list(range(1, 181))
        assert device.received[1:] == await live_server.frames_of(ana)


async def test_quiet_socket_gets_heartbeats(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    async with opened(live_server.url, bearer()) as device:
        assert device.hello["data"]["heartbeat_seconds"] == 0.1
        assert await device.next() == {"type": "heartbeat", "data": {}}
        assert await device.next() == {"type": "heartbeat", "data": {}}


@pytest.mark.usefixtures("announced_only")
@pytest.mark.parametrize("channel", [NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL])
async def test_garbage_on_a_channel_stops_no_delivery(live_server: LiveServer, channel: str) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana) as device:
        await listening(live_server)
        for garbage in (b"", b"\xc1", b"\x93\x01\x02\x03", b"hello"):
            await redis_pubsub.publish(live_server.parts.redis, channel, garbage)
        await live_server.notify_user(ana, 1)
        assert await device.seqs(1) == [1]
        assert live_server.hub._listener.connected


async def test_former_driver_does_not_see_the_next_drivers_position(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    first, second = await live_server.newcomer("driver"), await live_server.newcomer("driver")
    passenger = await live_server.newcomer()
    ride_id = await desk.request(passenger.id)
    await desk.offer(ride_id, first.id)
    assert (await desk.accept(ride_id, first.id)).status_code == 200

    async def show(driver_id: object) -> None:
        at = now()
        shown = ShownPosition(ride_id, passenger.id, driver_id, 1.0, 2.0, at, None, None, at)  # type: ignore[arg-type]
        await redis_pubsub.publish(live_server.parts.redis, POSITIONS_CHANNEL, encode_positions([shown]))

    async with live_server.device(first) as device, opened(live_server.url, bearer("operator")) as office:
        await listening(live_server)
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
async def shaky(stack: Stack, settings: Settings, redis: PrivateRedis) -> AsyncIterator[LiveServer]:
    """A server with its own PostgreSQL database and Redis, for outages."""
    async with (
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        open_live_server(parts, here) as live_server,
    ):
        yield live_server


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find a Redis outage soon; while Redis is up, do not poll."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)
    monkeypatch.setattr(redis_pubsub, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(redis_pubsub, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(redis_pubsub, "RECONNECT_SECONDS", 0.05)


async def next_arrives(live_server: LiveServer, device: Device, user: object) -> None:
    """Check that a new notification arrives next."""
    (written,) = await live_server.notify_user(user, 1)  # type: ignore[arg-type]
    assert await device.seqs(1) == [written.seq]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("way", ["stopped", "frozen"])
async def test_hub_polls_while_redis_is_away_and_recovers(
    shaky: LiveServer, redis: PrivateRedis, way: str
) -> None:
    ana = await shaky.newcomer()
    async with shaky.device(ana) as device:
        await listening(shaky)
        await next_arrives(shaky, device, ana)
        if way == "stopped":
            await redis.stop()
        else:
            redis.freeze()
        await until(lambda: not shaky.hub._listener.connected)
        for _ in range(3):
            await next_arrives(shaky, device, ana)
        async with shaky.device(ana, since=0) as late:
            assert await late.seqs(4) == [1, 2, 3, 4]
        if way == "stopped":
            await redis.start()
        else:
            redis.thaw()
        await listening(shaky)
        await until(shaky.redis.is_up)
        await next_arrives(shaky, device, ana)


@pytest.mark.usefixtures("hasty")
async def test_hub_without_redis_polls(parts: Parts, live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with (
        served(parts, redis_url=None) as here,
        open_live_server(parts, here) as quiet,
        quiet.device(ana) as device,
    ):
        await live_server.notify_user(ana, 2)
        assert await device.seqs(2) == [1, 2]


async def no_poll() -> None:
    """Replaces `Hub._poll`."""


@pytest.mark.usefixtures("hasty")
async def test_sockets_survive_a_database_outage(
    shaky: LiveServer, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(session, "RETRY_SECONDS", 0.05)
    # The poll that follows the connection to Redis could send the rows before the outage.
    monkeypatch.setattr(shaky.hub, "_poll", no_poll)
    ana = await shaky.newcomer()
    shaky.unannounced.clear()
    async with shaky.device(ana) as device:
        await listening(shaky)
        (own,) = shaky.hub._sessions[ana.id]
        await until(lambda: own._delivering is None)  # the greeting has read the rows
        for _ in range(2):
            await shaky.notify_user(ana, 1, announced=False)
        await until(lambda: len(shaky.unannounced) == 2)
        async with away(stack, shaky.database):
            assert not await shaky.database.is_up()
            # The announcement shows a gap: the row before it must be read, which fails.
            shaky.hub._on_announcements(shaky.unannounced[1])
            answer = await device.ask("ack", {"seq": 1})
            assert (answer["type"], answer["data"]["code"]) == ("error", "database_unavailable")
            assert await device.is_silent()
        assert await device.seqs(2) == [1, 2]
        assert (await device.ask("ack", {"seq": 1}))["data"] == {"seq": 1}


async def test_failed_hub_is_logged_and_restarted(
    parts: Parts, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_REDIS", 3600)
    ana = await live_server.newcomer()
    async with served(parts) as here, open_live_server(parts, here) as other:
        failed: list[object] = []

        async def fail_once(principals: object) -> list[bool]:
            if not failed:
                failed.append(other.hub._running)
                raise RuntimeError("a fault of ours")
            return [False]

        monkeypatch.setattr(other.hub, "_revoked", fail_once)
        async with other.device(ana) as device:
            await until(lambda: failed)
            # In between there is no task, perhaps for less time than `until` needs to see it.
            await until(lambda: other.hub._running not in (None, *failed))
            await listening(other)
            await other.notify_user(ana, 1)
            assert await device.seqs(1) == [1]
    assert "hub_failed" in capsys.readouterr().out
