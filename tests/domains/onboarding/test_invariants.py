"""The doctor rules of sign-ups."""

from uuid import uuid4

import pytest

from catraca.domains import onboarding
from catraca.platform.database.invariants import check_invariants
from tests.domains.onboarding.harness import SignUpHarness

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


async def breached(harness: SignUpHarness) -> set[str]:
    verdicts = await check_invariants(harness.parts.database, onboarding.INVARIANTS)
    return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def test_sign_ups_break_no_rule(harness: SignUpHarness) -> None:
    tag = f"rosa-{uuid4().hex}"
    async with harness.ingesting():
        receipt = await harness.sign_up(email=f"{tag}@example.com")
        await harness.ingested(receipt.id)
        await harness.ingested((await harness.sign_up(email=f"{tag.upper()}@example.com")).id)
    assert await breached(harness) == set()


async def test_sign_up_without_a_user_is_found(harness: SignUpHarness) -> None:
    await harness.fetch("INSERT INTO sign_ups (id, request_id) VALUES ($1, $1)", uuid4())
    assert await breached(harness) == {"every accepted sign-up has its user"}


async def test_rejected_sign_up_with_a_user_is_found(harness: SignUpHarness) -> None:
    async with harness.ingesting():
        receipt = await harness.sign_up()
        await harness.ingested(receipt.id)
    await harness.fetch("UPDATE sign_ups SET rejected = 'email_taken' WHERE id = $1", receipt.id)
    assert await breached(harness) == {"no rejected sign-up has a user"}


async def test_missing_primary_key_is_found(harness: SignUpHarness) -> None:
    await harness.fetch("ALTER TABLE sign_ups RENAME CONSTRAINT sign_ups_pkey TO lost")
    try:
        assert "one row per sign-up" in await breached(harness)
    finally:
        await harness.fetch("ALTER TABLE sign_ups RENAME CONSTRAINT lost TO sign_ups_pkey")
