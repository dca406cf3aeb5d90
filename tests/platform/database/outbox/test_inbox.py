"""Each consumer applies each event once, also with concurrent attempts."""

import asyncio
from contextlib import suppress
from uuid import UUID, uuid4

import pytest

from catraca.platform.database import Database, Db, inbox
from tests.servers import until
from tests.support.outboxes import a_backend_waits_for_a_lock


async def apply(database: Database, consumer: str, *ids: UUID) -> set[UUID]:
    return await database.run(lambda db: inbox.insert_new(db, consumer, ids))


async def test_repeats_are_found_per_consumer_and_within_a_batch(database: Database) -> None:
    one, two, three = uuid4(), uuid4(), uuid4()
    assert await apply(database, "a", one, one, two) == {one, two}
    assert await apply(database, "a", two, three) == {three}
    assert await apply(database, "b", one) == {one}
    assert await apply(database, "b") == set()


async def test_concurrent_consumers_apply_an_event_once(database: Database) -> None:
    """Batches in any order, some rolled back and retried: together they apply each event once."""
    events = [uuid4() for _ in range(40)]
    applied: list[UUID] = []

    async def consume(turn: int) -> None:
        mine = events[turn:] + events[:turn]
        for attempt in range(2):

            async def work(db: Db, attempt: int = attempt) -> set[UUID]:
                new = await inbox.insert_new(db, "a", mine)
                if attempt == 0 and turn % 2:
                    raise KeyError
                return new

            with suppress(KeyError):
                applied.extend(await database.run(work))

    await asyncio.gather(*(consume(turn) for turn in range(16)))
    assert sorted(applied) == sorted(events)


@pytest.mark.parametrize("first_commits", [True, False])
async def test_second_consumer_waits_for_the_end_of_the_first(
    database: Database, first_commits: bool
) -> None:
    event = uuid4()
    began, end = asyncio.Event(), asyncio.Event()

    async def first(db: Db) -> set[UUID]:
        new = await inbox.insert_new(db, "a", [event])
        began.set()
        await end.wait()
        if not first_commits:
            raise KeyError
        return new

    leading = asyncio.create_task(database.run(first))
    await began.wait()
    following = asyncio.create_task(apply(database, "a", event))
    await until(lambda: a_backend_waits_for_a_lock(database))
    assert not following.done()
    end.set()
    if first_commits:
        assert await leading == {event}
    else:
        with pytest.raises(KeyError):
            await leading
    assert await following == (set() if first_commits else {event})


async def test_rolled_back_handler_leaves_no_inbox_row(database: Database) -> None:
    event = uuid4()

    async def fail(db: Db) -> None:
        await inbox.insert_new(db, "a", [event])
        raise KeyError

    with pytest.raises(KeyError):
        await database.run(fail)
    assert await apply(database, "a", event) == {event}
