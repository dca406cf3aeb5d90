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
from tests.domains.onboarding.harness import SignUpHarness, new_address, on_both_buses, valid_message
from tests.servers import until
from tests.support.roles import working

pytestmark = on_both_buses


def sign_up(sign_up_id: UUID, email: str) -> SignUp:
    return SignUp(id=sign_up_id, name="Ana", email=email, language="en", request_id=uuid4())


@pytest.mark.parametrize("shared", ["sign-ups", "addresses"])
async def test_batches_with_the_same_sign_ups_never_deadlock(harness: SignUpHarness, shared: str) -> None:
    dice = random.Random(7)
    all_ids: list[UUID] = []
    before = RETRIED_TRANSACTIONS._value.get()
    for _ in range(6):
        emails = [new_address() for _ in range(30)]
        ids = [uuid4() for _ in range(30)]
        batches: list[list[SignUp]] = []
        for _ in range(8):
            if shared == "addresses":
                ids = [uuid4() for _ in emails]
            batches.append(dice.sample([sign_up(*both) for both in zip(ids, emails, strict=True)], 30))
            all_ids += ids
        await asyncio.gather(*(written(harness, batch) for batch in batches))
    assert RETRIED_TRANSACTIONS._value.get() == before, "a deadlock would have been retried"
    fates = Counter([row["rejected"] for row in await harness.fetch("SELECT rejected FROM sign_ups")])
    rivals = {} if shared == "sign-ups" else {"email_taken": 6 * 30 * 7}
    assert fates == {None: 6 * 30, **rivals}
    keys = Counter(await harness.event_keys(*all_ids))
    assert keys == {"user.created": 6 * 30} | ({"user.rejected": 6 * 30 * 7} if rivals else {})


async def written(harness: SignUpHarness, batch: list[SignUp]) -> None:
    await harness.parts.database.run(lambda db: write_sign_ups(db, batch))


async def test_two_ingesters_add_each_user_once(harness: SignUpHarness) -> None:
    dice = random.Random(11)
    ids, emails = [uuid4() for _ in range(150)], [new_address() for _ in range(50)]
    firsts = [valid_message(one, emails[place % 50]) for place, one in enumerate(ids)]
    storm = firsts * 3
    dice.shuffle(storm)
    await harness.put(*storm)
    small = harness.parts.settings.changed(users_batch_size=20)

    async def all_are_handled() -> bool:
        (row,) = await harness.fetch("SELECT count(*) AS handled FROM sign_ups")
        return row["handled"] == len(ids) and await harness.is_empty()

    async with AsyncExitStack() as both:
        for _ in range(2):
            parts = await both.enter_async_context(open_parts(small))
            await both.enter_async_context(working(parts, ["ingester"]))
        await until(all_are_handled)
    assert await harness.left() == {}
    fates = Counter([await harness.outcome(one) for one in ids])
    assert fates == {"created": 50, "email_taken": 100}
    people = await harness.fetch("SELECT id FROM users WHERE id = ANY ($1::uuid[])", ids)
    assert len(people) == 50
    assert Counter(await harness.event_keys(*ids)) == {"user.created": 50, "user.rejected": 100}


async def test_first_request_with_an_id_in_a_batch_wins(harness: SignUpHarness) -> None:
    ids = [uuid4() for _ in range(60)]
    firsts = [sign_up(one, new_address()) for one in ids]
    later = [sign_up(one, new_address()) for _ in range(4) for one in reversed(ids)]
    await harness.parts.database.run(lambda db: write_sign_ups(db, [*firsts, *later]))
    kept = await harness.fetch("SELECT request_id FROM sign_ups")
    assert {row["request_id"] for row in kept} == {first.request_id for first in firsts}


async def test_second_handler_waits_and_takes_over_on_failure(
    harness: SignUpHarness,
) -> None:
    kept, given_up = sign_up(uuid4(), new_address()), sign_up(uuid4(), new_address())
    database = harness.parts.database

    async def second() -> None:
        await database.run(lambda db: write_sign_ups(db, [kept]))
        await database.run(lambda db: write_sign_ups(db, [given_up]))

    try:
        async with database.transaction() as db:
            await write_sign_ups(db, [given_up])
            await database.run(lambda db: write_sign_ups(db, [kept]))
            waiting = asyncio.create_task(second())

            async def a_transaction_waits() -> bool:
                query = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
                return bool(await harness.fetch(query))

            await until(a_transaction_waits)
            raise RuntimeError("the first fails")  # noqa: TRY301
    except RuntimeError:
        await waiting
    assert [await harness.outcome(one.id) for one in (kept, given_up)] == ["created", "created"]
    assert await harness.event_keys(kept.id, given_up.id) == ["user.created"] * 2
