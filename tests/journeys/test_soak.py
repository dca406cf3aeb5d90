"""Mixed requests at half of the possible rate for some seconds; `make prove soak` takes half an hour."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.servers import Stack
from tests.storms.fleet import StormFleet, storm_fleet
from tests.storms.servers import storm_servers
from tests.storms.soak.storm import WINDOWS, Window, growth_of, soak

SHARE = 0.01
STEADY = [
    Window(answers=1000, median=5, p99=20, megabytes={"API 1": 120.0}, files={"API 1": 40}) for _ in range(9)
]


@pytest.fixture
async def here(stack: Stack, broker_url: str | None) -> AsyncIterator[StormFleet]:
    async with storm_servers(stack.name, broker_url) as place, storm_fleet(place) as fleet:
        yield fleet


@pytest.mark.long
@pytest.mark.xdist_group("rides")
async def test_mixed_requests_are_all_answered_at_half_rate(here: StormFleet) -> None:
    report = await soak(here, share=SHARE, judges_latency=False)
    assert len(report.splitlines()) == 2 + WINDOWS


def test_steady_figures_pass() -> None:
    assert growth_of(STEADY) == []


def test_growth_while_warming_up_passes() -> None:
    small = [replace(one, megabytes={"API 1": 60.0}, p99=5) for one in STEADY[:3]]
    assert growth_of([*small, *STEADY[3:]]) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"megabytes": {"API 1": 127.0}}, "memory of API 1 grew from 120.0 to 127.0 MB"),
        ({"files": {"API 1": 60}}, "open files of API 1 grew from 40 to 60"),
        ({"p99": 41}, "p99 grew from 20.0 to 41.0 ms"),
    ],
)
def test_growth_in_the_last_third_is_reported(changed: dict[str, object], found: str) -> None:
    grown = [replace(one, **changed) for one in STEADY[6:]]
    assert growth_of([*STEADY[:6], *grown]) == [found]
