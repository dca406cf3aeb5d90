"""Many ingesters at once, with the same sign-ups and the same addresses."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import pytest

from catraca.domains.onboarding.model import SignUp
from catraca.domains.onboarding.service import write_sign_ups
from catraca.platform.database.transactions import RETRIED_TRANSACTIONS
from catraca.roles.parts import open_parts
from tests.domains.onboarding.desk import Desk, an_address, on_both_buses, sound
from tests.servers import until
from tests.support.roles import working

pytestmark = on_both_buses


def sign_up(sign_up_id: UUID, email: str) -> SignUp:
    return SignUp(id=sign_up_id, name="Ana", email=email, language="en", request_id=uuid4())


@pytest.mark.parametrize("shared", ["sign-ups", "addresses"])
async def test_batches_with_the_same_in_any_order_never_wait_for_each_other(desk: Desk, shared: str) -> None:
    dice = random.Random(7)
    everybody: list[UUID] = []
    before = RETRIED_TRANSACTIONS._value.get()
    for _ in range(6):
        emails = [an_address() for _ in range(30)]
        ids = [uuid4() for _ in range(30)]
        batches: list[list[SignUp]] = []
        for _ in range(8):
            if shared == "addresses":
                ids = [uuid4() for _ in emails]
            batches.append(dice.sample([sign_up(*both) for both in zip(ids, emails, strict=True)], 30))
            everybody += ids
        await asyncio.gather(*(written(desk, batch) for batch in batches))
    assert RETRIED_TRANSACTIONS._value.get() == before, "a deadlock would have been tried again"
    fates = Counter([row["rejected"] for row in await desk.fetch("SELECT rejected FROM sign_ups")])
    rivals = {} if shared == "sign-ups" else {"email_taken": 6 * 30 * 7}
    assert fates == {None: 6 * 30, **rivals}
    told = Counter(await desk.told(*everybody))
    assert told == {"user.created": 6 * 30} | ({"user.rejected": 6 * 30 * 7} if rivals else {})


async def written(desk: Desk, batch: list[SignUp]) -> None:
    await desk.parts.database.run(lambda db: write_sign_ups(db, batch))


async def test_two_ingesters_with_repeats_and_rivals_make_each_person_once(desk: Desk) -> None:
    dice = random.Random(11)
    ids, emails = [uuid4() for _ in range(150)], [an_address() for _ in range(50)]
    firsts = [sound(one, emails[place % 50]) for place, one in enumerate(ids)]
    storm = firsts * 3
    dice.shuffle(storm)
    await desk.put(*storm)
    small = desk.parts.settings.changed(users_batch_size=20)

    async def all_are_handled() -> bool:
        (row,) = await desk.fetch("SELECT count(*) AS handled FROM sign_ups")
        return row["handled"] == len(ids) and await desk.is_empty()

    async with AsyncExitStack() as both:
        for _ in range(2):
            parts = await both.enter_async_context(open_parts(small))
            await both.enter_async_context(working(parts, ["ingester"]))
        await until(all_are_handled)
    assert await desk.left() == {}
    fates = Counter([await desk.fate(one) for one in ids])
    assert fates == {"created": 50, "email_taken": 100}
    people = await desk.fetch("SELECT id FROM users WHERE id = ANY ($1::uuid[])", ids)
    assert len(people) == 50
    assert Counter(await desk.told(*ids)) == {"user.created": 50, "user.rejected": 100}


async def test_of_requests_under_one_id_the_first_of_a_batch_has_it(desk: Desk) -> None:
    ids = [uuid4() for _ in range(60)]
    firsts = [sign_up(one, an_address()) for one in ids]
    later = [sign_up(one, an_address()) for _ in range(4) for one in reversed(ids)]
    await desk.parts.database.run(lambda db: write_sign_ups(db, [*firsts, *later]))
    kept = await desk.fetch("SELECT request_id FROM sign_ups")
    assert {row["request_id"] for row in kept} == {first.request_id for first in firsts}


async def test_a_second_handler_of_a_sign_up_waits_for_the_first_and_takes_over_if_it_fails(
    desk: Desk,
) -> None:
    kept, given_up = sign_up(uuid4(), an_address()), sign_up(uuid4(), an_address())
    database = desk.parts.database

    async def second() -> None:
        await database.run(lambda db: write_sign_ups(db, [kept]))
        await database.run(lambda db: write_sign_ups(db, [given_up]))

    try:
        async with database.transaction() as db:
            await write_sign_ups(db, [given_up])
            await database.run(lambda db: write_sign_ups(db, [kept]))
            waiting = asyncio.create_task(second())

            async def somebody_waits() -> bool:
                query = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
                return bool(await desk.fetch(query))

            await until(somebody_waits)
            raise RuntimeError("the first fails")  # noqa: TRY301
    except RuntimeError:
        await waiting
    assert [await desk.fate(one.id) for one in (kept, given_up)] == ["created", "created"]
    assert await desk.told(kept.id, given_up.id) == ["user.created"] * 2
