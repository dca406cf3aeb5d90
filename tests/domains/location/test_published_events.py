"""Events about drivers, and the roles that consume them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import msgspec

from catraca.domains.location.model import DriverId, Ping
from catraca.domains.location.positions.service import PositionPublisher
from catraca.events import DriverUpdated
from catraca.platform.bus import Message
from catraca.platform.clock import now
from catraca.platform.errors import DatabaseUnavailable
from catraca.platform.geo import Place
from tests.domains.location.town import LAT, LNG, Town, spot
from tests.servers import until
from tests.support.roles import working


async def metric(town: Town, name: str) -> float:
    lines = (await town.api.get("/metrics")).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def test_offline_driver_loses_the_offer(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id, ttl_seconds=3600)

    async def end_reason() -> str | None:
        async with town.parts.database.connection() as db:
            return await db.fetchval(
                "SELECT reason FROM ride_offers WHERE ride_id = $1 AND NOT held", ride_id
            )

    assert await end_reason() is None
    async with working(town.parts, ["relay", "dispatcher"]):
        await town.go(driver_id, online=False)
        assert await until(end_reason) == "driver_offline"


async def test_ping_of_a_driving_driver_reaches_the_notifier(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    async with working(town.parts, ["relay", "notifier"]):
        before = await metric(town, "catraca_tracking_delay_seconds_count")

        async def is_counted() -> bool:
            await town.ping(driver_id)
            return await metric(town, "catraca_tracking_delay_seconds_count") > before

        await until(is_counted)


class Recorder:
    def __init__(self) -> None:
        self.events: list[DriverUpdated] = []

    async def publish(self, messages: Sequence[Message]) -> None:
        self.events += [msgspec.json.decode(message.body, type=DriverUpdated) for message in messages]


async def test_publisher_sends_only_the_newest_ping_of_driving_drivers(town: Town) -> None:
    driving, offered, free = [await town.new_driver() for _ in range(3)]
    ride_id = await town.drive(driving)
    await town.rides.offer(await town.rides.request(), offered)
    recorder = Recorder()
    publisher = PositionPublisher(town.parts.database.run, recorder.publish, every_seconds=0.2)
    for number in range(40):
        for driver_id in (driving, offered, free):
            ping = Ping(Place(LAT + number / 1000, LNG), now(), 5.0, 9.0, 90.0)
            publisher.add({DriverId(driver_id): ping}, at=now())
    await until(lambda: recorder.events)
    (event,) = recorder.events
    assert (event.driver_id, event.ride_id) == (driving, ride_id)
    assert (event.lat, event.lng) == (LAT + 39 / 1000, LNG)
    assert (event.accuracy_meters, event.speed_mps, event.heading_degrees) == (5.0, 9.0, 90.0)


async def test_rejected_pings_are_not_published(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    async with town.parts.database.connection() as db:
        await db.execute("DELETE FROM bus_transient")
    for place in (spot(300), spot(accuracy_meters=900)):
        assert (await town.ping(driver_id, place))["accepted"] == 0
    await town.ping(driver_id, spot())

    async def waiting() -> list[DriverUpdated]:
        async with town.parts.database.connection() as db:
            rows = await db.fetch("SELECT body FROM bus_transient")
        events = [msgspec.json.decode(row["body"], type=DriverUpdated) for row in rows]
        return [event for event in events if event.driver_id == driver_id]

    (event,) = await until(waiting)
    assert (round(event.lat, 6), event.lng) == (LAT, LNG)


async def test_publisher_continues_after_a_database_outage(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    recorder = Recorder()

    async def unavailable(*_: object) -> object:
        raise DatabaseUnavailable

    publisher = PositionPublisher(unavailable, recorder.publish, every_seconds=0.01)  # type: ignore[arg-type]
    publisher.add({DriverId(driver_id): Ping(Place(LAT, LNG), now())}, at=now())
    await until(lambda: publisher._task is None)
    publisher._transact = town.parts.database.run
    publisher.add({DriverId(driver_id): Ping(Place(LAT, LNG), now())}, at=now())
    await until(lambda: recorder.events)


async def test_dispatcher_rebuilds_the_index_and_patrols(town: Town) -> None:
    driver_id: UUID = await town.new_driver()
    await town.make_silent(driver_id)
    await town.redis.command("DEL", "catraca:location:whole")
    settings = town.parts.settings.changed(position_interval=timedelta(seconds=0.2))
    async with working(replace(town.parts, settings=settings), ["dispatcher"]):
        await until(lambda: town.redis.command("EXISTS", "catraca:location:whole"))

        async def is_offline() -> bool:
            await town.make_silent(driver_id)
            return (await town.events(driver_id)) != ["online"]

        await until(is_offline)
    assert await town.events(driver_id) == ["online", "offline"]
