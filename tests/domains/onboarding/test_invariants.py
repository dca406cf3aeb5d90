"""What `catraca doctor --invariants` watches of sign-ups: it holds, and a breach is seen."""

from uuid import uuid4

import pytest

from catraca.domains import onboarding
from catraca.platform.database.invariants import check_invariants
from tests.domains.onboarding.desk import Desk

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


async def breached(desk: Desk) -> set[str]:
    verdicts = await check_invariants(desk.parts.database, onboarding.INVARIANTS)
    return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def test_a_database_of_sign_ups_breaks_no_rule(desk: Desk) -> None:
    tag = f"rosa-{uuid4().hex}"
    async with desk.ingesting():
        taken = await desk.sign_up(email=f"{tag}@example.com")
        await desk.ingested(taken.id)
        await desk.ingested((await desk.sign_up(email=f"{tag.upper()}@example.com")).id)
    assert await breached(desk) == set()


async def test_a_sign_up_that_left_no_person_is_seen(desk: Desk) -> None:
    await desk.fetch("INSERT INTO sign_ups (id, request_id) VALUES ($1, $1)", uuid4())
    assert await breached(desk) == {"every accepted sign-up has its user"}


async def test_a_rejected_sign_up_that_became_a_person_is_seen(desk: Desk) -> None:
    async with desk.ingesting():
        taken = await desk.sign_up()
        await desk.ingested(taken.id)
    await desk.fetch("UPDATE sign_ups SET rejected = 'email_taken' WHERE id = $1", taken.id)
    assert await breached(desk) == {"no rejected sign-up has a user"}


async def test_a_lost_primary_key_is_seen(desk: Desk) -> None:
    await desk.fetch("ALTER TABLE sign_ups RENAME CONSTRAINT sign_ups_pkey TO lost")
    try:
        assert "one row per sign-up" in await breached(desk)
    finally:
        await desk.fetch("ALTER TABLE sign_ups RENAME CONSTRAINT lost TO sign_ups_pkey")
