"""Waiting for a server that is away: later and later, within bounds, and no longer than one is asked to."""

import asyncio

import pytest

from catraca.platform.bus import outage_retry
from catraca.platform.bus.outage_retry import (
    LONGEST_PAUSE_SECONDS,
    Patience,
    Stopped,
    _pause_seconds,
)
from catraca.platform.database import Database
from catraca.platform.errors import Away, Busy, DatabaseUnavailable, OutcomeUnknown, Refusal
from catraca.platform.redis_client import RedisAway

ENOUGH = 7


class Work:
    """Fails as it is told to, for so many times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.tries = 0
        self._error = error
        self._times = times

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self._times:
            raise self._error
        return "done"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.0001)


def test_pauses_grow_up_to_a_limit_and_no_two_consumers_keep_step() -> None:
    patience_of_many = [[_pause_seconds(count) for count in range(1, 60)] for _ in range(20)]
    for pauses in patience_of_many:
        assert all(0 < pause <= LONGEST_PAUSE_SECONDS for pause in pauses)
    for count in range(5):
        assert len({pauses[count] for pauses in patience_of_many}) > 1


def test_the_second_pause_is_longer_than_the_first_could_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.1)
    assert max(_pause_seconds(1) for _ in range(50)) <= min(_pause_seconds(2) for _ in range(50))
    assert _pause_seconds(1000) >= LONGEST_PAUSE_SECONDS / 2


@pytest.mark.parametrize("error", [Away(), RedisAway(), Busy(), DatabaseUnavailable(), OutcomeUnknown()])
async def test_it_goes_on_when_the_server_is_back_and_tells_of_each_pause(
    database: Database, error: Exception
) -> None:
    pauses: list[None] = []
    work = Work(error, ENOUGH)
    patient = Patience(database, asyncio.Event(), paused=lambda: pauses.append(None))
    assert await patient.through(work) == "done"
    assert (work.tries, len(pauses)) == (ENOUGH + 1, ENOUGH)


async def test_what_is_wrong_with_the_work_itself_is_raised_at_once(database: Database) -> None:
    work = Work(KeyError(), 1)
    with pytest.raises(KeyError):
        await Patience(database, asyncio.Event()).through(work)
    assert work.tries == 1


@pytest.mark.parametrize("error", [Busy(), DatabaseUnavailable(), OutcomeUnknown()])
async def test_who_alone_finds_the_database_away_is_told_so_in_the_end(
    database: Database, error: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", ENOUGH)
    work = Work(error, 3 * ENOUGH)
    with pytest.raises(type(error)):
        await Patience(database, asyncio.Event()).through(work)
    assert work.tries == ENOUGH


async def test_a_database_that_is_away_for_everybody_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 1)
    nowhere = await Database.open("postgresql://catraca@127.0.0.1:1/catraca")
    work = Work(DatabaseUnavailable(), ENOUGH)
    try:
        assert await Patience(nowhere, asyncio.Event()).through(work) == "done"
    finally:
        await nowhere.close()


async def test_who_is_to_stop_stops_in_the_middle_of_a_pause(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 3600)
    monkeypatch.setattr(outage_retry, "LONGEST_PAUSE_SECONDS", 3600)
    stopping = asyncio.Event()
    work = Work(Away(), 1)
    with pytest.raises(Stopped):
        async with asyncio.timeout(30):
            await Patience(database, stopping, paused=stopping.set).through(work)
    assert work.tries == 1
