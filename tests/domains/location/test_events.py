"""What is told of drivers, and who reacts to it."""

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


async def figure(town: Town, name: str) -> float:
    lines = (await town.api.get("/metrics")).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def test_an_offline_drivers_offer_is_withdrawn(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id, ttl_seconds=3600)

    async def why_it_ended() -> str | None:
        async with town.parts.database.connection() as db:
            return await db.fetchval(
                "SELECT reason FROM ride_offers WHERE ride_id = $1 AND NOT held", ride_id
            )

    assert await why_it_ended() is None
    async with working(town.parts, ["relay", "dispatcher"]):
        await town.go(driver_id, online=False)
        assert await until(why_it_ended) == "driver_offline"


async def test_pings_of_a_driver_on_a_ride_come_out_where_they_can_be_shown(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    async with working(town.parts, ["relay", "notifier"]):
        before = await figure(town, "catraca_tracking_delay_seconds_count")

        async def has_come() -> bool:
            await town.ping(driver_id)
            return await figure(town, "catraca_tracking_delay_seconds_count") > before

        await until(has_come)


class Listener:
    def __init__(self) -> None:
        self.heard: list[DriverUpdated] = []

    async def publish(self, messages: Sequence[Message]) -> None:
        self.heard += [msgspec.json.decode(message.body, type=DriverUpdated) for message in messages]


async def test_only_drivers_on_a_ride_are_told_of_and_only_their_newest_position(town: Town) -> None:
    driving, offered, free = [await town.new_driver() for _ in range(3)]
    ride_id = await town.drive(driving)
    await town.rides.offer(await town.rides.request(), offered)
    listener = Listener()
    publisher = PositionPublisher(town.parts.database.run, listener.publish, every_seconds=0.2)
    for number in range(40):
        for driver_id in (driving, offered, free):
            ping = Ping(Place(LAT + number / 1000, LNG), now(), 5.0, 9.0, 90.0)
            publisher.add(DriverId(driver_id), ping, at=now())
    await until(lambda: listener.heard)
    (told,) = listener.heard
    assert (told.driver_id, told.ride_id) == (driving, ride_id)
    assert (told.lat, told.lng) == (LAT + 39 / 1000, LNG)
    assert (told.accuracy_meters, told.speed_mps, told.heading_degrees) == (5.0, 9.0, 90.0)


async def test_nothing_is_told_of_pings_that_do_not_count(town: Town) -> None:
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
        told = [msgspec.json.decode(row["body"], type=DriverUpdated) for row in rows]
        return [event for event in told if event.driver_id == driver_id]

    (event,) = await until(waiting)
    assert (round(event.lat, 6), event.lng) == (LAT, LNG)


async def test_telling_goes_on_after_the_database_was_away(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    listener = Listener()

    async def away(*_: object) -> object:
        raise DatabaseUnavailable

    publisher = PositionPublisher(away, listener.publish, every_seconds=0.01)  # type: ignore[arg-type]
    publisher.add(DriverId(driver_id), Ping(Place(LAT, LNG), now()), at=now())
    await until(lambda: publisher._task is None)
    publisher._transact = town.parts.database.run
    publisher.add(DriverId(driver_id), Ping(Place(LAT, LNG), now()), at=now())
    await until(lambda: listener.heard)


async def test_the_dispatcher_fills_the_map_and_patrols_by_itself(town: Town) -> None:
    driver_id: UUID = await town.new_driver()
    await town.silence(driver_id)
    await town.redis.command("DEL", "catraca:location:whole")
    settings = town.parts.settings.changed(position_interval=timedelta(seconds=0.2))
    async with working(replace(town.parts, settings=settings), ["dispatcher"]):
        await until(lambda: town.redis.command("EXISTS", "catraca:location:whole"))

        async def is_gone() -> bool:
            await town.silence(driver_id)
            return (await town.told(driver_id)) != ["online"]

        await until(is_gone)
    assert await town.told(driver_id) == ["online", "offline"]
