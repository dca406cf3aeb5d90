"""The timeline of a ride explains its outcome: in order, complete, and bounded."""

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
from tests.domains.matching.harness import RULES, MatchingHarness
from tests.domains.rides.desk import moment
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def story(harness: MatchingHarness, ride_id: UUID) -> list[Any]:
    lines = (await harness.town.rides.timeline(ride_id))["story"]
    moments = [moment(line["at"]) for line in lines]
    assert moments == sorted(moments)
    return lines


def fields_of(lines: Sequence[Any], *fields: str) -> list[tuple[Any, ...]]:
    """Return each line's kind and these fields, as far as it has them."""
    return [(line["what"], *(line[name] for name in fields if name in line)) for line in lines]


async def due_now(harness: MatchingHarness, ride_id: UUID) -> None:
    """Make the next search due, and run it."""
    await harness.town.rides.sql(
        "UPDATE matchings SET next_search_at = clock_timestamp() WHERE ride_id = $1", ride_id
    )
    await harness.fire_timer(ride_id)


async def test_timeline_of_a_ride_without_a_driver(harness: MatchingHarness) -> None:
    driving = await harness.town.new_driver(steps=1)
    await harness.town.drive(driving)
    further = await harness.town.new_driver(steps=14)
    ride_id = await harness.request_ride()
    await harness.town.go(further, online=False)
    await harness.fire_timer(ride_id, woken=True)
    await due_now(harness, ride_id)
    await harness.pass_deadline(ride_id)
    await harness.fire_timer(ride_id)
    lines = await story(harness, ride_id)
    assert fields_of(lines, "search", "radius_meters", "cause", "outcome", "verdicts", "by", "reason") == [
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
    assert waits[0]["until"] == waits[1]["until"], "woken in vain, it waits until the same time"


async def test_timeline_of_two_refusals_and_an_acceptance(harness: MatchingHarness) -> None:
    drivers = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    await harness.town.rides.reject(ride_id, drivers[0], "too_far")
    await harness.advance(ride_id)
    await harness.refuse(ride_id, drivers[1])
    await harness.accept(ride_id, drivers[2])
    first, second, third = map(str, drivers)
    lines = await story(harness, ride_id)
    assert fields_of(lines, "search", "cause", "outcome", "driver_id", "attempt", "by", "reason") == [
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
    timeline = await harness.town.rides.timeline(ride_id)
    assert [line["until"] for line in lines if line["what"] == "offered"] == [
        offer["expires_at"] for offer in timeline["offers"]
    ]
    assert timeline["cut"] == []


async def test_timeline_of_a_ride_given_up_by_its_driver(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, first)
    await harness.town.rides.give_up(ride_id, first)
    await harness.advance(ride_id)
    await harness.accept(ride_id, second)
    await harness.town.rides.drive_to("COMPLETED", ride_id, second)
    lines = await story(harness, ride_id)
    assert fields_of(lines, "round", "cause", "driver_id", "reason") == [
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


async def test_timeline_shows_the_wider_search_after_all_refused(harness: MatchingHarness) -> None:
    only = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, only)
    lines = await story(harness, ride_id)
    assert fields_of(lines[3:], "search", "cause", "outcome", "verdicts") == [
        ("refused",),
        ("searched", 1, "offer_ended", "all_asked", {"refused_before": 1}),
        ("searched", 2, "all_asked", "nobody_near", {"refused_before": 1}),
        ("waits", 2, "nobody_near"),
    ]
    assert (await harness.town.rides.timeline(ride_id))["next_search_at"] == lines[-1]["until"]


async def test_timeline_shows_the_next_search_after_the_attempt_limit(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, max_attempts_per_search=1))
    first, _ = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    lines = await story(harness, ride_id)
    assert fields_of(lines[4:], "search", "cause", "outcome") == [
        ("searched", 2, "all_asked", "asked"),
        ("offered", 2),
    ]


async def test_timeline_shows_the_wait_for_more_candidates(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=2))
    await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    lines = await story(harness, ride_id)
    assert fields_of(lines, "outcome") == [
        ("requested",),
        ("searched", "asked"),
        ("waits", "asked"),
        ("offered",),
    ]
    assert moment(lines[2]["until"]) == (await harness.row(ride_id))["next_search_at"]


async def test_timeline_shows_why_offers_ended(harness: MatchingHarness) -> None:
    gone, silent, loses, wins = await harness.new_drivers(1, 2, 3, 4)
    ride_id = await harness.request_ride()
    await harness.town.go(gone, online=False)
    await harness.deliver_all(gone, "location.driver.offline")
    await harness.advance(ride_id)
    await harness.town.rides.let_lapse(ride_id)
    await harness.advance(ride_id)
    await harness.town.rides.offer(ride_id, wins)
    await harness.accept(ride_id, wins)
    answers = [
        line for line in await story(harness, ride_id) if line["what"] in ("silent", "withdrawn", "accepted")
    ]
    assert {(line["what"], UUID(line["driver_id"]), line.get("reason")) for line in answers} == {
        ("withdrawn", gone, "driver_offline"),
        ("silent", silent, None),
        ("withdrawn", loses, "accepted_by_another_driver"),
        ("accepted", wins, None),
    }


async def test_timeline_ends_with_the_passengers_cancellation(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    passenger_id = uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.advance(ride_id)
    await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id), "changed_plans")
    lines = await story(harness, ride_id)
    assert fields_of(lines[-2:], "driver_id", "by", "reason") == [
        ("withdrawn", str(driver_id), "ride_canceled"),
        ("canceled", "passenger", "changed_plans"),
    ]


async def test_timeline_shows_offers_made_by_operators(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=0))
    driver_id = await harness.town.new_driver()
    ride_id = await harness.request_ride()
    await harness.town.rides.offer(ride_id, driver_id)
    timeline = await harness.town.rides.timeline(ride_id)
    assert timeline["searches"] == []
    assert fields_of(timeline["story"], "by", "driver_id") == [
        ("requested", "passenger"),
        ("offered", "operator", str(driver_id)),
    ]
    (offer,) = timeline["offers"]
    assert (offer["by"], offer["search"], offer["pickup_distance_meters"]) == ("operator", None, None)


async def test_timeline_shows_searches_without_redis(harness: MatchingHarness) -> None:
    async with harness.without_redis():
        ride_id = await harness.request_ride()
        searched, waits = (await story(harness, ride_id))[1:]
    assert (searched["source"], searched["outcome"]) == ("database", "index_away")
    assert moment(waits["until"]) - moment(waits["at"]) == timedelta(seconds=2)


async def test_search_record_keeps_the_nearest_and_the_offered(harness: MatchingHarness) -> None:
    count = MAX_SEEN + 5
    crowd = await harness.town.rides.new_drivers(count)
    for driver_id in crowd:
        await harness.town.go(driver_id, online=True, position=spot(steps=1))
    await harness.town.rides.offer(await harness.town.rides.request(), *crowd)
    offered_id = await harness.town.new_driver(steps=9)
    ride_id = await harness.request_ride()
    (search,) = (await harness.town.rides.timeline(ride_id))["searches"]
    assert search["verdicts"] == {"held": count, "offered": 1}
    assert len(search["seen"]) == MAX_SEEN
    assert search["seen"][-1]["driver_id"] == str(offered_id)


async def test_timeline_is_cut_to_the_last_searches(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    await harness.town.rides.sql(
        "INSERT INTO matching_searches (id, ride_id, round, search, at, radius_meters, source, cause,"
        "   outcome, next_at, verdicts, seen)"
        " SELECT gen_random_uuid(), ride_id, round, n, at + n * interval '1 s', radius_meters, source, cause,"
        "   outcome, next_at + n * interval '1 s', verdicts, seen"
        " FROM matching_searches CROSS JOIN generate_series(2, $2::integer) AS n WHERE ride_id = $1",
        ride_id,
        MAX_SEARCHES,
    )
    timeline = await harness.town.rides.timeline(ride_id)
    assert (len(timeline["searches"]), timeline["cut"]) == (MAX_SEARCHES, [])
    await harness.fire_timer(ride_id, woken=True)
    timeline = await harness.town.rides.timeline(ride_id)
    assert [search["search"] for search in timeline["searches"]] == [2, *range(2, MAX_SEARCHES + 1)]
    assert timeline["cut"] == ["searches"]


async def test_timeline_is_cut_to_the_first_steps_and_offers(
    harness: MatchingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    whole = await harness.town.rides.timeline(ride_id)
    monkeypatch.setattr(reading, "STEPS_SHOWN", len(whole["steps"]) - 1)
    monkeypatch.setattr(reading, "OFFERS_SHOWN", 1)
    timeline = await harness.town.rides.timeline(ride_id)
    assert timeline["cut"] == ["steps", "offers"]
    assert (timeline["steps"], timeline["offers"]) == (whole["steps"][:-1], whole["offers"][:1])


async def test_searches_past_their_retention_are_marked_as_cut(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver()
    ride_id = await harness.request_ride()
    await sweep(harness, retention=timedelta(hours=1))
    assert len((await harness.town.rides.timeline(ride_id))["searches"]) == 1
    await sweep(harness, retention=timedelta(0))
    timeline = await harness.town.rides.timeline(ride_id)
    assert (timeline["searches"], timeline["cut"]) == ([], ["searches"])
    (offer,) = timeline["offers"]
    assert (offer["driver_id"], offer["by"]) == (str(driver_id), None), "the record of the search is gone"


async def sweep(harness: MatchingHarness, *, retention: timedelta) -> None:
    parts = harness.town.parts
    settings = parts.settings.changed(search_retention=retention)
    await RetentionPruner(replace(parts, settings=settings)).prune()


async def test_search_records_cannot_be_updated(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        await harness.town.rides.sql(
            "UPDATE matching_searches SET seen = '[]' WHERE ride_id = $1 RETURNING id", ride_id
        )


async def test_timeline_of_an_unknown_ride_is_404(harness: MatchingHarness) -> None:
    answer = await harness.town.api.get(f"/v1/rides/{uuid4()}/timeline", headers=bearer("operator"))
    assert (answer.status_code, answer.json()["code"]) == (404, "ride_not_found")
