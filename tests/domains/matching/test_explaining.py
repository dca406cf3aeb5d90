"""A ride's timeline answers why somebody came, or nobody: in order, whole, and within bounds."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains.matching.candidates.service import MAX_SEEN
from catraca.domains.matching.explain.service import MAX_SEARCHES
from catraca.domains.rides.views import service as reading
from catraca.roles.agents.retention_pruner import RetentionPruner
from tests.conftest import bearer
from tests.domains.location.town import spot
from tests.domains.matching.office import RULES, Office
from tests.domains.rides.desk import moment
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def story(office: Office, ride_id: UUID) -> list[Any]:
    lines = (await office.town.rides.timeline(ride_id))["story"]
    moments = [moment(line["at"]) for line in lines]
    assert moments == sorted(moments)
    return lines


def told(lines: Sequence[Any], *fields: str) -> list[tuple[Any, ...]]:
    """What happened, with these of its data, as far as a line has them."""
    return [(line["what"], *(line[name] for name in fields if name in line)) for line in lines]


async def due_now(office: Office, ride_id: UUID) -> None:
    """Let the wait for the next search be over."""
    await office.town.rides.sql(
        "UPDATE matchings SET next_search_at = clock_timestamp() WHERE ride_id = $1", ride_id
    )
    await office.fire(ride_id)


async def test_why_nobody_came(office: Office) -> None:
    driving = await office.town.new_driver(steps=1)
    await office.town.drive(driving)
    further = await office.town.new_driver(steps=14)
    ride_id = await office.requested()
    await office.town.go(further, online=False)
    await office.fire(ride_id, woken=True)
    await due_now(office, ride_id)
    await office.past_deadline(ride_id)
    await office.fire(ride_id)
    lines = await story(office, ride_id)
    assert told(lines, "search", "radius_meters", "cause", "outcome", "verdicts", "by", "reason") == [
        ("requested", "passenger"),
        ("searched", 1, 1000, "begun", "nobody_near", {"driving": 1, "too_far": 1}),
        ("waits", 1, "nobody_near"),
        ("woken", 2),
        ("searched", 2, 1500, "driver_near", "waits_on", {"driving": 1}),
        ("waits", 2, "waits_on"),
        ("searched", 2, 1500, "due", "nobody_near", {"driving": 1}),
        ("waits", 2, "nobody_near"),
        ("canceled", "system", "no_drivers_available"),
    ]
    assert [line["seen"] for line in lines if line["what"] == "searched"] == [2, 1, 1]
    waits = [line for line in lines if line["what"] == "waits"]
    assert moment(waits[0]["until"]) - moment(waits[0]["at"]) == RULES.search_retry_interval
    assert waits[0]["until"] == waits[1]["until"], "woken in vain, it waits on for the same moment"


async def test_refused_twice_and_then_taken(office: Office) -> None:
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.requested()
    await office.town.rides.reject(ride_id, drivers[0], "too_far")
    await office.advance(ride_id)
    await office.refused(ride_id, drivers[1])
    await office.taken(ride_id, drivers[2])
    first, second, third = map(str, drivers)
    lines = await story(office, ride_id)
    assert told(lines, "search", "cause", "outcome", "driver_id", "attempt", "by", "reason") == [
        ("requested", "passenger"),
        ("searched", 1, "begun", "asked"),
        ("offered", 1, first, 1, "search"),
        ("refused", first, 1, "too_far"),
        ("searched", 1, "offer_ended", "asked"),
        ("offered", 1, second, 2, "search"),
        ("refused", second, 2),
        ("searched", 1, "offer_ended", "asked"),
        ("offered", 1, third, 3, "search"),
        ("accepted", 1, third, 3, "driver"),
    ]
    distances = [round(line["distance_meters"], -2) for line in lines if line["what"] == "offered"]
    assert distances == [100, 200, 300]
    timeline = await office.town.rides.timeline(ride_id)
    assert [line["until"] for line in lines if line["what"] == "offered"] == [
        offer["expires_at"] for offer in timeline["offers"]
    ]
    assert timeline["cut"] == []


async def test_a_driver_who_gives_up_is_followed_by_another_round(office: Office) -> None:
    first, second = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.taken(ride_id, first)
    await office.town.rides.give_up(ride_id, first)
    await office.advance(ride_id)
    await office.taken(ride_id, second)
    await office.town.rides.drive_to("COMPLETED", ride_id, second)
    lines = await story(office, ride_id)
    assert told(lines, "round", "cause", "driver_id", "reason") == [
        ("requested", 1),
        ("searched", 1, "begun"),
        ("offered", 1, str(first)),
        ("accepted", 1, str(first)),
        ("given_up", 2, str(first), "vehicle_problem"),
        ("searched", 2, "begun"),
        ("offered", 2, str(second)),
        ("accepted", 2, str(second)),
        ("arriving", 2),
        ("started", 2),
        ("completed", 2),
    ]


async def test_when_all_were_asked_the_next_search_follows_at_once(office: Office) -> None:
    only = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    await office.refused(ride_id, only)
    lines = await story(office, ride_id)
    assert told(lines[3:], "search", "cause", "outcome", "verdicts") == [
        ("refused",),
        ("searched", 1, "offer_ended", "all_asked", {"refused_before": 1}),
        ("searched", 2, "all_asked", "nobody_near", {"refused_before": 1}),
        ("waits", 2, "nobody_near"),
    ]
    assert (await office.town.rides.timeline(ride_id))["next_search_at"] == lines[-1]["until"]


async def test_a_search_that_has_asked_as_many_as_it_may_is_followed_by_the_next(office: Office) -> None:
    office.be_by(replace(RULES, max_attempts_per_search=1))
    first, _ = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    lines = await story(office, ride_id)
    assert told(lines[4:], "search", "cause", "outcome") == [
        ("searched", 2, "all_asked", "asked"),
        ("offered", 2),
    ]


async def test_with_room_for_more_it_says_until_when_it_waits(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=2))
    await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    lines = await story(office, ride_id)
    assert told(lines, "outcome") == [
        ("requested",),
        ("searched", "asked"),
        ("waits", "asked"),
        ("offered",),
    ]
    assert moment(lines[2]["until"]) == (await office.row(ride_id))["next_search_at"]


async def test_why_an_offer_was_withdrawn(office: Office) -> None:
    gone, silent, loses, wins = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3, 4)]
    ride_id = await office.requested()
    await office.town.go(gone, online=False)
    await office.carry(gone, "location.driver.offline")
    await office.advance(ride_id)
    await office.town.rides.let_lapse(ride_id)
    await office.advance(ride_id)
    await office.town.rides.offer(ride_id, wins)
    await office.taken(ride_id, wins)
    answers = [
        line for line in await story(office, ride_id) if line["what"] in ("silent", "withdrawn", "accepted")
    ]
    assert {(line["what"], UUID(line["driver_id"]), line.get("reason")) for line in answers} == {
        ("withdrawn", gone, "driver_offline"),
        ("silent", silent, None),
        ("withdrawn", loses, "accepted_by_another_driver"),
        ("accepted", wins, None),
    }


async def test_a_passenger_who_cancels_ends_the_story(office: Office) -> None:
    asked = await office.town.new_driver(steps=1)
    passenger_id = uuid4()
    ride_id = await office.town.rides.request(passenger_id)
    await office.advance(ride_id)
    await office.town.rides.cancel(ride_id, bearer("passenger", passenger_id), "changed_plans")
    lines = await story(office, ride_id)
    assert told(lines[-2:], "driver_id", "by", "reason") == [
        ("withdrawn", str(asked), "ride_canceled"),
        ("canceled", "passenger", "changed_plans"),
    ]


async def test_what_an_operator_offers_is_told_as_theirs(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=0))
    driver_id = await office.town.new_driver()
    ride_id = await office.requested()
    await office.town.rides.offer(ride_id, driver_id)
    timeline = await office.town.rides.timeline(ride_id)
    assert timeline["searches"] == []
    assert told(timeline["story"], "by", "driver_id") == [
        ("requested", "passenger"),
        ("offered", "operator", str(driver_id)),
    ]
    (offer,) = timeline["offers"]
    assert (offer["by"], offer["search"], offer["pickup_distance_meters"]) == ("operator", None, None)


async def test_while_the_map_is_away_it_says_so_and_looks_again_soon(office: Office) -> None:
    async with office.without_redis():
        ride_id = await office.requested()
        searched, waits = (await story(office, ride_id))[1:]
    assert (searched["source"], searched["outcome"]) == ("database", "index_away")
    assert moment(waits["until"]) - moment(waits["at"]) == timedelta(seconds=2)


async def test_of_many_seen_the_nearest_are_kept_and_whoever_was_asked(office: Office) -> None:
    count = MAX_SEEN + 5
    crowd = await office.town.rides.new_drivers(count)
    for driver_id in crowd:
        await office.town.go(driver_id, online=True, position=spot(steps=1))
    await office.town.rides.offer(await office.town.rides.request(), *crowd)
    asked = await office.town.new_driver(steps=9)
    ride_id = await office.requested()
    (search,) = (await office.town.rides.timeline(ride_id))["searches"]
    assert search["verdicts"] == {"held": count, "offered": 1}
    assert len(search["seen"]) == MAX_SEEN
    assert search["seen"][-1]["driver_id"] == str(asked)


async def test_of_many_searches_the_last_are_told_and_that_there_were_more(office: Office) -> None:
    ride_id = await office.requested()
    await office.town.rides.sql(
        "INSERT INTO matching_searches (id, ride_id, round, search, at, radius_meters, source, cause,"
        "   outcome, next_at, verdicts, seen)"
        " SELECT gen_random_uuid(), ride_id, round, n, at + n * interval '1 s', radius_meters, source, cause,"
        "   outcome, next_at + n * interval '1 s', verdicts, seen"
        " FROM matching_searches CROSS JOIN generate_series(2, $2::integer) AS n WHERE ride_id = $1",
        ride_id,
        MAX_SEARCHES,
    )
    timeline = await office.town.rides.timeline(ride_id)
    assert (len(timeline["searches"]), timeline["cut"]) == (MAX_SEARCHES, [])
    await office.fire(ride_id, woken=True)
    timeline = await office.town.rides.timeline(ride_id)
    assert [search["search"] for search in timeline["searches"]] == [2, *range(2, MAX_SEARCHES + 1)]
    assert timeline["cut"] == ["searches"]


async def test_steps_and_offers_beyond_a_bound_are_not_told_and_that_is(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    whole = await office.town.rides.timeline(ride_id)
    monkeypatch.setattr(reading, "STEPS_SHOWN", len(whole["steps"]) - 1)
    monkeypatch.setattr(reading, "OFFERS_SHOWN", 1)
    timeline = await office.town.rides.timeline(ride_id)
    assert timeline["cut"] == ["steps", "offers"]
    assert (timeline["steps"], timeline["offers"]) == (whole["steps"][:-1], whole["offers"][:1])


async def test_after_its_retention_a_search_is_gone_and_the_timeline_says_so(office: Office) -> None:
    driver_id = await office.town.new_driver()
    ride_id = await office.requested()
    await sweep(office, retention=timedelta(hours=1))
    assert len((await office.town.rides.timeline(ride_id))["searches"]) == 1
    await sweep(office, retention=timedelta(0))
    timeline = await office.town.rides.timeline(ride_id)
    assert (timeline["searches"], timeline["cut"]) == ([], ["searches"])
    (offer,) = timeline["offers"]
    assert (offer["driver_id"], offer["by"]) == (str(driver_id), None), "nobody knows any more who made it"


async def sweep(office: Office, *, retention: timedelta) -> None:
    parts = office.town.parts
    settings = parts.settings.changed(search_retention=retention)
    await RetentionPruner(replace(parts, settings=settings)).prune()


async def test_what_a_search_saw_never_changes(office: Office) -> None:
    ride_id = await office.requested()
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await office.town.rides.sql(
            "UPDATE matching_searches SET seen = '[]' WHERE ride_id = $1 RETURNING id", ride_id
        )


async def test_a_ride_nobody_knows_has_no_timeline(office: Office) -> None:
    answer = await office.town.api.get(f"/v1/rides/{uuid4()}/timeline", headers=bearer("operator"))
    assert (answer.status_code, answer.json()["code"]) == (404, "ride_not_found")
