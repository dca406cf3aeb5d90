"""Retries of work while a server is unavailable."""

import asyncio

import pytest

from catraca.platform.bus import outage_retry
from catraca.platform.bus.outage_retry import OutageRetry, Stopped
from catraca.platform.database import Database
from catraca.platform.errors import Away, Busy, DatabaseUnavailable, OutcomeUnknown, Refusal
from catraca.platform.redis_client import RedisAway

ENOUGH = 7


class Work:
    """Raises `error` a number of times, then succeeds."""

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
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.0001)


@pytest.mark.parametrize("error", [Away(), RedisAway(), Busy(), DatabaseUnavailable(), OutcomeUnknown()])
async def test_work_is_retried_until_the_server_is_back(database: Database, error: Exception) -> None:
    pauses: list[None] = []
    work = Work(error, ENOUGH)
    retry = OutageRetry(database, asyncio.Event(), on_pause=lambda: pauses.append(None))
    assert await retry.run(work) == "done"
    assert (work.tries, len(pauses)) == (ENOUGH + 1, ENOUGH)


async def test_an_error_of_the_work_itself_is_raised_at_once(database: Database) -> None:
    work = Work(KeyError(), 1)
    with pytest.raises(KeyError):
        await OutageRetry(database, asyncio.Event()).run(work)
    assert work.tries == 1


@pytest.mark.parametrize("error", [Busy(), DatabaseUnavailable(), OutcomeUnknown()])
async def test_work_that_alone_fails_is_raised_in_the_end(
    database: Database, error: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", ENOUGH)
    work = Work(error, 3 * ENOUGH)
    with pytest.raises(type(error)):
        await OutageRetry(database, asyncio.Event()).run(work)
    assert work.tries == ENOUGH


async def test_outage_of_the_whole_server_is_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 1)
    nowhere = await Database.open("postgresql://catraca@127.0.0.1:1/catraca")
    work = Work(DatabaseUnavailable(), ENOUGH)
    try:
        assert await OutageRetry(nowhere, asyncio.Event()).run(work) == "done"
    finally:
        await nowhere.close()


async def test_stopping_ends_a_pause(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 3600)
    monkeypatch.setattr(outage_retry, "LONGEST_PAUSE_SECONDS", 3600)
    stopping = asyncio.Event()
    work = Work(Away(), 1)
    with pytest.raises(Stopped):
        async with asyncio.timeout(30):
            await OutageRetry(database, stopping, on_pause=stopping.set).run(work)
    assert work.tries == 1
