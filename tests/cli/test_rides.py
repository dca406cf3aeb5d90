"""`catraca rides explain`: the history of a ride as text, and its summary sentence."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from catraca.cli.ride_story import print_story
from catraca.domains.matching.explain.schemas import TimelineOut
from tests.cli.shell import Machine
from tests.conftest import bearer
from tests.domains.matching.harness import RULES, MatchingHarness

# The data is the route's, which is tested on both stacks; the text does not depend on the stack.
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class RideMachine(Machine):
    """Runs commands on the harness's database."""

    command = ("rides",)


@pytest.fixture
def machine(harness: MatchingHarness, tmp_path: Path) -> RideMachine:
    url = harness.town.parts.settings.servers.database_url
    assert url is not None
    return RideMachine(url, tmp_path)


@dataclass
class Reader:
    """Prints the story from the route's response, without a process."""

    harness: MatchingHarness
    printed: pytest.CaptureFixture[str]

    async def explain(self, ride_id: UUID) -> list[str]:
        timeline = TimelineOut.model_validate(await self.harness.town.rides.timeline(ride_id))
        self.printed.readouterr()
        print_story(timeline)
        return marked(self.printed.readouterr().out)


@pytest.fixture
def reader(harness: MatchingHarness, capsys: pytest.CaptureFixture[str]) -> Reader:
    return Reader(harness, capsys)


def marked(output: str) -> list[str]:
    """Return the lines, with marks for times and durations."""
    output = re.sub(r"\d{4}-\d\d-\d\d", "DAY", re.sub(r"\d\d:\d\d:\d\d", "TIME", output))
    return re.sub(r"(took|for|after) (\d+ (h|min|s) ?)+", r"\1 LONG", output).splitlines()


async def test_explains_a_refusal_and_an_acceptance(harness: MatchingHarness, machine: RideMachine) -> None:
    driving, refuses, comes, beyond = await harness.new_drivers(1, 2, 3, 4)
    for busy in (driving, beyond):
        await harness.town.drive(busy)
    ride_id = await harness.request_ride()
    await harness.town.rides.reject(ride_id, refuses, "too_far")
    await harness.advance(ride_id)
    await harness.accept(ride_id, comes)
    first, second = str(refuses)[:8], str(comes)[:8]
    code, output, complaint = await machine.run("explain", ride_id)
    assert (code, complaint) == (0, "")
    assert marked(output) == [
        f"Ride {ride_id}  ACCEPTED, round 1, DAY, for LONG",
        "TIME  requested",
        "TIME  search 1 within 1 km: 4 seen, 1 asked, 1 nearer: 1 driving",
        f"TIME  asks {first}, 200 m away, until TIME",
        f"TIME  {first} refuses (too_far)",
        "TIME  search 1 within 1 km: 4 seen, 1 asked, 2 nearer: 1 driving, 1 refused before",
        f"TIME  asks {second}, 300 m away, until TIME",
        f"TIME  {second} accepts",
        f"{second} came: accepted after LONG, in search 1, 300 m away; of others, 1 was asked: 1 refused.",
    ]


async def test_explains_a_ride_without_a_driver(harness: MatchingHarness, reader: Reader) -> None:
    drivers = await harness.new_drivers(1, 2, 3)
    await harness.town.drive(drivers[0])
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, drivers[1])
    await harness.town.go(drivers[2], online=False)
    await harness.deliver_all(drivers[2], "location.driver.offline")
    await harness.advance(ride_id)
    await harness.pass_deadline(ride_id)
    await harness.fire_timer(ride_id)
    output = await reader.explain(ride_id)
    assert output[-6:] == [
        f"TIME  the offer to {str(drivers[2])[:8]} is withdrawn: the driver went offline",
        "TIME  search 1 within 1 km: 2 seen, no driver to ask: 1 driving, 1 refused before",
        "TIME  search 2 within 1.5 km: 2 seen, no driver to ask: 1 driving, 1 refused before",
        "TIME  waits until TIME, or until a driver near by is free",
        "TIME  over: no driver came (no_drivers_available)",
        (
            "No driver came: 2 were asked: 1 refused, 1 went offline."
            " Of the other drivers within reach (1.5 km): 1 driving."
        ),
    ]


async def test_explains_that_no_driver_was_online(harness: MatchingHarness, reader: Reader) -> None:
    ride_id = await harness.request_ride()
    await harness.fire_timer(ride_id, woken=True)
    await harness.pass_deadline(ride_id)
    await harness.fire_timer(ride_id)
    assert (await reader.explain(ride_id))[2:] == [
        "TIME  search 1 within 1 km: no driver",
        "TIME  waits until TIME, or until a driver near by is free",
        "TIME  woken: a driver near by is free",
        "TIME  search 2 within 1.5 km: no driver",
        "TIME  still waits until TIME",
        "TIME  over: no driver came (no_drivers_available)",
        "No driver came: no driver was online within 1.5 km.",
    ]


async def test_explains_a_search_in_progress(harness: MatchingHarness, reader: Reader) -> None:
    ride_id = await harness.request_ride()
    assert (await reader.explain(ride_id))[-1] == (
        "No driver has come yet; the search ends at TIME; the next search is at TIME."
    )
    driver_id = await harness.town.new_driver(steps=1)
    await harness.fire_timer(ride_id, woken=True)
    assert (await reader.explain(ride_id))[-1] == (
        f"No driver has come yet; the search ends at TIME; being asked: {str(driver_id)[:8]}."
    )


async def test_explains_a_second_round(harness: MatchingHarness, reader: Reader) -> None:
    gives_up, comes = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, gives_up)
    await harness.town.rides.give_up(ride_id, gives_up)
    await harness.advance(ride_id)
    await harness.accept(ride_id, comes)
    await harness.town.rides.drive_to("COMPLETED", ride_id, comes)
    output = await reader.explain(ride_id)
    assert output[0] == f"Ride {ride_id}  COMPLETED, round 2, DAY, took LONG"
    assert output[4:7] == [
        f"TIME  {str(gives_up)[:8]} accepts",
        f"TIME  {str(gives_up)[:8]} gives the ride up (vehicle_problem); round 2 begins",
        "TIME  search 1 within 1 km: 2 seen, 1 asked, 1 nearer: 1 gave it up before",
    ]
    assert output[-4:] == [
        "TIME  the driver arrives",
        "TIME  the ride begins",
        "TIME  the ride is over",
        f"{str(comes)[:8]} came: accepted after LONG, in search 1, 200 m away.",
    ]


async def test_explains_a_cancellation(harness: MatchingHarness, reader: Reader) -> None:
    passenger_id = uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id), "changed_plans")
    assert (await reader.explain(ride_id))[1:] == [
        "TIME  requested",
        "TIME  canceled by the passenger (changed_plans)",
        "The passenger canceled (changed_plans); no driver had been asked.",
    ]


async def test_explains_operator_offers_without_search_records(
    harness: MatchingHarness, reader: Reader
) -> None:
    harness.use_rules(replace(RULES, offers_at_once=0))
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    await harness.town.rides.offer(ride_id, driver_id)
    output = await reader.explain(ride_id)
    assert output[2] == f"TIME  an operator asks {str(driver_id)[:8]}, until TIME"
    await harness.pass_deadline(ride_id)
    await harness.fire_timer(ride_id)
    assert (await reader.explain(ride_id))[-1] == (
        "No driver came: 1 was asked: 1 did not answer, and no search was made."
    )
    await harness.town.rides.sql("UPDATE matchings SET search = 2 WHERE ride_id = $1", ride_id)
    assert (await reader.explain(ride_id))[-2:] == [
        "Not shown: more searches.",
        "No driver came: 1 was asked: 1 did not answer, and the search records are deleted.",
    ]


async def test_json_output_equals_the_route(harness: MatchingHarness, machine: RideMachine) -> None:
    await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    code, output, _ = await machine.run("explain", ride_id, "--json")
    assert (code, json.loads(output)) == (0, await harness.town.rides.timeline(ride_id))


@pytest.mark.parametrize(
    ("ride_id", "code", "word"),
    [(uuid4(), 1, "there is no ride"), ("7", 2, "UUID")],
    ids=["unknown", "no id"],
)
async def test_unknown_ride_is_a_one_line_error(
    machine: RideMachine, ride_id: object, code: int, word: str
) -> None:
    found, output, complaint = await machine.run("explain", ride_id)
    assert (found, output) == (code, "")
    assert word in complaint
    assert "Traceback" not in complaint
