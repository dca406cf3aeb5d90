"""Fence crossings: one event each, and nothing is written for drivers who stay."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

import pytest

from catraca.client import Client, Ping
from catraca.domains import location
from catraca.domains.communities import Community, Rules
from catraca.domains.communities.service import change_community
from catraca.domains.location.fence_crossings import store
from catraca.domains.location.presence.jobs import Patrol
from catraca.platform.clock import now
from catraca.platform.database.invariants import check_invariants
from tests.client.people import token_of
from tests.conftest import bearer
from tests.domains.geofences.village import METERS_A_DEGREE, Village, square
from tests.domains.location.town import Town, redis_stopped, spot
from tests.servers import on_one_stack, until
from tests.support.roles import working

# Metres to the north of the village's middle: its edge is at 1000, and the phone is wrong by 20 at most.
IN, BARELY_IN, BARELY_OUT, OUT = 900, 990, 1010, 1100


@pytest.fixture
async def village(town: Town) -> Village:
    """A village far from other tests: only its own drivers are inside."""
    return await Village.create(town)


@dataclass
class Drive:
    """A driver who pings every five seconds of the driver's clock, with a patrol after each ping."""

    village: Village
    driver_id: UUID
    patrol: Patrol
    at: datetime = field(default_factory=lambda: now() - timedelta(seconds=50))

    @classmethod
    async def begin(cls, village: Village, north: float | None) -> Self:
        """Go online `north` metres north, or without a position."""
        drive = cls(village, await village.town.rides.new_driver(), village.town.patrol())
        position = {} if north is None else {"position": drive.ping(north)}
        await village.town.go(drive.driver_id, online=True, **position)
        return drive

    def ping(self, north: float) -> dict[str, Any]:
        self.at += timedelta(seconds=5)
        lat = self.village.lat + north / METERS_A_DEGREE
        return spot(lat=lat, lng=self.village.lng, at=self.at, accuracy_meters=20)

    async def on(self, *north: float) -> list[str]:
        """Ping from these distances north, with a patrol after each ping; returns all events so far."""
        for one in north:
            answer = await self.village.town.ping(self.driver_id, self.ping(one))
            assert answer["accepted"] == 1, answer
            await self.patrol.check_all()
        return await self.events()

    async def events(self) -> list[str]:
        """The driver's events after the first one, `online`."""
        first, *more = await self.village.town.events(self.driver_id)
        assert first == "online"
        return more

    async def rows(self) -> list[Any]:
        """The driver's rows with the system columns that show a write."""
        return list(
            await self.village.town.rides.sql(
                "SELECT xmin, ctid, * FROM driver_communities WHERE driver_id = $1", self.driver_id
            )
        )


ENTERED, LEFT = "entered_community", "left_community"


async def test_online_inside_enters_and_offline_deletes_the_state(village: Village) -> None:
    drive = await Drive.begin(village, IN)
    assert await drive.events() == [ENTERED]
    (row,) = await drive.rows()
    assert (row["community_id"], row["inside"]) == (village.community.id, True)
    await drive.on(IN, BARELY_IN)
    assert await drive.rows() == [row], "nothing is written while the driver stays"
    await village.town.go(drive.driver_id, online=False)
    assert await drive.rows() == []
    assert await drive.events() == [ENTERED, "offline"], "going offline publishes no leave event"


async def test_first_position_decides_alone_even_near_the_edge(village: Village) -> None:
    for north, events in ((BARELY_IN, [ENTERED]), (BARELY_OUT, [])):
        drive = await Drive.begin(village, north)
        assert await drive.events() == events
    for north, events in ((BARELY_IN, [ENTERED]), (BARELY_OUT, [])):
        drive = await Drive.begin(village, None)
        await drive.patrol.check_all()
        assert await drive.events() == []
        assert await drive.on(north) == events
        assert await drive.on(BARELY_IN, BARELY_IN, BARELY_IN) == events, "only the first"


async def test_first_position_sent_later_decides_alone_too(village: Village) -> None:
    drive = await Drive.begin(village, None)
    await village.town.go(drive.driver_id, online=True, position=drive.ping(BARELY_IN))
    assert await drive.events() == [ENTERED]

    known = await Drive.begin(village, OUT)
    await village.town.go(known.driver_id, online=True, position=known.ping(IN))
    assert await known.events() == [], "later positions count as pings"


@on_one_stack
async def test_going_online_over_a_socket_enters_at_once(village: Village) -> None:
    driver_id = await village.town.rides.new_driver()
    async with (
        Client(str(village.town.api.base_url), token=token_of("driver", driver_id)) as client,
        client.live() as live,
    ):
        await live.go_online(Ping(lat=village.lat, lng=village.lng))
    assert await village.town.events(driver_id) == ["online", ENTERED]


async def test_entering_and_leaving_publish_one_event_each(village: Village) -> None:
    drive = await Drive.begin(village, OUT)
    assert await drive.on(IN, IN) == []
    assert await drive.on(IN) == [ENTERED]
    assert await drive.on(OUT, BARELY_IN, OUT, OUT) == [ENTERED]
    assert await drive.on(OUT) == [ENTERED, LEFT]
    assert await drive.rows() == []
    rows = await village.town.rides.sql(
        "SELECT body FROM outbox WHERE aggregate_id = $1 AND routing_key LIKE '%community' ORDER BY seq",
        drive.driver_id,
    )
    for row, north in zip(rows, (IN, OUT), strict=True):
        event = json.loads(row["body"])
        assert event["community_id"] == str(village.community.id)
        assert (round(event["lat"], 6), event["lng"]) == (
            round(village.lat + north / METERS_A_DEGREE, 6),
            village.lng,
        )


@on_one_stack
async def test_driving_on_one_side_writes_nothing(village: Village) -> None:
    outside, inside = await Drive.begin(village, OUT), await Drive.begin(village, IN)
    rows = await inside.rows()
    await outside.on(BARELY_OUT, OUT, BARELY_IN, BARELY_IN, BARELY_OUT)
    await inside.on(BARELY_IN, IN, BARELY_OUT, BARELY_OUT, BARELY_IN)
    assert (await outside.rows(), await inside.rows()) == ([], rows)


@on_one_stack
async def test_one_ping_counts_once_over_many_patrols(village: Village) -> None:
    drive = await Drive.begin(village, OUT)
    await drive.on(IN)
    (row,) = await drive.rows()
    assert (row["inside"], row["crossing_pings"]) == (False, 1)
    for _ in range(5):
        await drive.patrol.check_all()
    assert await drive.rows() == [row]


async def test_concurrent_patrols_publish_one_event(village: Village) -> None:
    drives = [await Drive.begin(village, north) for north in (IN, OUT) * 4]
    for _ in range(3):
        for number, drive in enumerate(drives):
            await village.town.ping(drive.driver_id, drive.ping(IN if number % 2 else OUT))
        await asyncio.gather(*(village.town.patrol().check_all() for _ in range(6)))
    for number, drive in enumerate(drives):
        assert await drive.events() == ([ENTERED] if number % 2 else [ENTERED, LEFT])


@on_one_stack
async def test_driver_going_offline_during_a_patrol_enters_nothing(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = await Drive.begin(village, None)
    read = store.fence_states

    async def read_before_offline(*given: Any) -> Any:
        found = await read(*given)
        monkeypatch.undo()
        await village.town.go(drive.driver_id, online=False)
        return found

    await village.town.ping(drive.driver_id, drive.ping(IN))
    monkeypatch.setattr(store, "fence_states", read_before_offline)
    await drive.patrol.check_all()
    assert await drive.events() == ["offline"]
    assert await drive.rows() == []


async def test_crossing_without_redis_uses_positions_of_postgresql(village: Village) -> None:
    drive = await Drive.begin(village, OUT)
    async with redis_stopped(village.town):
        for _ in range(3):
            assert await drive.events() == []
            # Without Redis, positions are written at an interval.
            await village.town.age(drive.driver_id, "seen_at", timedelta(seconds=6))
            await village.town.ping(drive.driver_id, drive.ping(IN))
            await drive.patrol.check_all()
        assert await drive.events() == [ENTERED]


@on_one_stack
async def test_old_position_after_a_redis_loss_does_not_count(village: Village) -> None:
    drive = await Drive.begin(village, OUT)
    await drive.on(IN, IN)
    before = await drive.rows()
    await village.town.redis.command("FLUSHALL")
    await drive.patrol.rebuild_index()
    await drive.patrol.check_all()
    assert await drive.rows() == before, "the old position in PostgreSQL is outside"
    assert await drive.on(IN) == [ENTERED]


async def change(village: Village, fence: dict[str, Any], **rules: Any) -> Community:
    made = await village.town.parts.database.run(
        lambda db: change_community(
            db,
            village.community.id,
            Rules(name="Vila", **rules),
            json.dumps(fence),
            version=village.community.version,
            by=None,
        )
    )
    village.community = made
    return made


async def test_retired_community_is_left_at_once(village: Village) -> None:
    inside, entering = await Drive.begin(village, IN), await Drive.begin(village, OUT)
    await entering.on(IN, IN)
    await change(village, square(village.lat, village.lng), retired=True)
    await inside.patrol.check_all()
    assert (await inside.events(), await inside.rows()) == ([ENTERED, LEFT], [])
    assert (await entering.events(), await entering.rows()) == ([], [])


@on_one_stack
async def test_moved_fence_is_left_and_entered(village: Village) -> None:
    left, found = await Drive.begin(village, IN), await Drive.begin(village, OUT)
    await change(village, square(village.lat + 1800 / METERS_A_DEGREE, village.lng, meters=750))
    assert await left.on(IN, IN, IN) == [ENTERED, LEFT]
    assert await found.on(OUT, OUT, OUT) == [ENTERED]


@on_one_stack
async def test_overlapping_fences_are_entered_separately(village: Village) -> None:
    inner = await village.add_community(square(village.lat, village.lng, meters=300))
    drive = await Drive.begin(village, IN)
    assert await drive.on(600, 400, 200, 100, 0) == [ENTERED, ENTERED]
    assert {row["community_id"] for row in await drive.rows()} == {village.community.id, inner.id}
    assert await drive.on(200, 400, 600, 700) == [ENTERED, ENTERED, LEFT]
    assert {row["community_id"] for row in await drive.rows()} == {village.community.id}


@on_one_stack
async def test_dispatcher_uses_the_crossing_settings(village: Village) -> None:
    drive = await Drive.begin(village, OUT)
    settings = village.town.parts.settings.changed(
        position_interval=timedelta(seconds=0.2), community_edge_pings=2
    )
    parts = replace(village.town.parts, settings=settings)

    async def crossing() -> bool:
        return bool(await drive.rows())

    async with working(parts, ["dispatcher"]):
        await village.town.ping(drive.driver_id, drive.ping(IN))
        await until(crossing)
        assert await drive.events() == []
        await village.town.ping(drive.driver_id, drive.ping(IN))
        await until(drive.events)
    assert await drive.events() == [ENTERED]
    settings = settings.changed(community_edge_pings=100, community_edge_dwell=timedelta(seconds=4))
    async with working(replace(parts, settings=settings), ["dispatcher"]):
        await village.town.ping(drive.driver_id, drive.ping(OUT))

        async def leaving() -> bool:
            return any(row["crossing_pings"] for row in await drive.rows())

        await until(leaving)
        await village.town.ping(drive.driver_id, drive.ping(OUT))

        async def left() -> bool:
            return await drive.events() == [ENTERED, LEFT]

        await until(left)


@on_one_stack
async def test_export_lists_communities(village: Village) -> None:
    drive = await Drive.begin(village, IN)
    answer = await village.town.api.get("/v1/me/export", headers=bearer("driver", drive.driver_id))
    (state,) = answer.json()["sections"]["location"]["communities"]
    assert (state["community_id"], state["inside"]) == (str(village.community.id), True)


async def broken(town: Town) -> list[str]:
    verdicts = await check_invariants(town.parts.database, location.INVARIANTS)
    assert "unchecked" not in {verdict.state for verdict in verdicts}
    return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]


async def test_invariant_finds_unpublished_crossings(village: Village) -> None:
    stays, leaves, enters, gone = [await Drive.begin(village, north) for north in (IN, IN, OUT, IN)]
    await leaves.on(OUT, OUT, OUT)
    await enters.on(IN, IN)
    await village.town.go(gone.driver_id, online=False)
    await village.town.go(gone.driver_id, online=True)
    assert await broken(village.town) == []
    (rule,) = [rule.name for rule in location.INVARIANTS if rule.name == "fence crossings are published"]
    sql = village.town.rides.sql
    flip = "UPDATE driver_communities SET inside = NOT inside WHERE driver_id = $1"
    for drive in (stays, enters):
        await sql(flip, drive.driver_id)
        assert await broken(village.town) == [rule]
        await sql(flip, drive.driver_id)
    assert await broken(village.town) == []
    for drive in (leaves, gone):
        await sql(
            "INSERT INTO driver_communities (driver_id, community_id, inside, since, seen_at)"
            " VALUES ($1, $2, true, now(), now())",
            drive.driver_id,
            village.community.id,
        )
        assert await broken(village.town) == [rule]
        await sql("DELETE FROM driver_communities WHERE driver_id = $1", drive.driver_id)
    await sql("DELETE FROM driver_communities WHERE driver_id = $1", stays.driver_id)
    assert await broken(village.town) == [rule]


@on_one_stack
async def test_invariant_finds_the_disabled_trigger(village: Village) -> None:
    (rule,) = [
        rule.name for rule in location.INVARIANTS if rule.name == "offline drivers are in no community"
    ]
    sql = village.town.rides.sql
    await sql("ALTER TABLE driver_presence DISABLE TRIGGER the_offline_are_in_no_community")
    try:
        assert await broken(village.town) == [rule]
    finally:
        await sql("ALTER TABLE driver_presence ENABLE TRIGGER the_offline_are_in_no_community")
    assert await broken(village.town) == []
