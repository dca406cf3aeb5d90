"""Positions of drivers: only the newest and fresh ones, and only to the passenger of the ride."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec

from catraca.domains.location.positions.model import ShownPosition, encode_positions
from catraca.domains.notifications import POSITIONS_CHANNEL
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from tests.domains.notifications.devices import Device, LiveServer
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


def position(
    passenger_id: UUID,
    *,
    ride_id: UUID | None = None,
    lat: float = -12.97,
    taken_at: datetime | None = None,
    updated_at: datetime | None = None,
    driver_id: UUID | None = None,
) -> ShownPosition:
    taken_at = taken_at or now()
    return ShownPosition(
        ride_id=ride_id or uuid4(),
        passenger_id=passenger_id,
        driver_id=driver_id or uuid4(),
        lat=lat,
        lng=-38.5,
        updated_at=updated_at or taken_at,
        heading_degrees=90.0,
        speed_mps=9.5,
        taken_at=taken_at,
    )


async def show(live_server: LiveServer, *positions: ShownPosition) -> None:
    assert await redis_pubsub.publish(live_server.parts.redis, POSITIONS_CHANNEL, encode_positions(positions))


async def until_subscribed(live_server: LiveServer) -> None:
    """Wait until the hub is subscribed, which it does with its first socket."""
    await until(lambda: live_server.hub._listener.connected)


async def seen(device: Device) -> dict[str, object]:
    frame = await device.next()
    assert frame["type"] == "position", frame
    assert "seq" not in frame
    return frame["data"]


async def test_passenger_sees_only_their_own_driver(live_server: LiveServer) -> None:
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    async with live_server.device(ana) as device, live_server.device(bia) as other:
        await until_subscribed(live_server)
        shown = position(ana.id)
        await show(live_server, shown)
        assert await seen(device) == {
            "ride_id": str(shown.ride_id),
            "driver_id": str(shown.driver_id),
            "lat": -12.97,
            "lng": -38.5,
            "updated_at": msgspec.to_builtins(shown.updated_at),
            "heading_degrees": 90.0,
            "speed_mps": 9.5,
        }
        assert await other.is_silent()


async def test_stale_and_superseded_positions_are_not_sent(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    ride_id, driver_id = uuid4(), uuid4()
    async with live_server.device(ana) as device:
        await until_subscribed(live_server)
        at = now()
        newest = position(ana.id, ride_id=ride_id, driver_id=driver_id, lat=-12.5, taken_at=at)
        overtaken = position(
            ana.id, ride_id=ride_id, driver_id=driver_id, lat=-12.4, updated_at=at - timedelta(seconds=2)
        )
        old = position(ana.id, taken_at=at - timedelta(seconds=6))
        await show(live_server, old, newest, overtaken)
        assert (await seen(device))["lat"] == -12.5
        assert await device.is_silent()


async def test_unreadable_positions_are_ignored(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    async with live_server.device(ana) as device:
        await until_subscribed(live_server)
        await redis_pubsub.publish(live_server.parts.redis, POSITIONS_CHANNEL, b"\xff not a position")
        await show(live_server, position(ana.id))
        assert await seen(device)
