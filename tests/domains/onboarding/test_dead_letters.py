"""Dead letters of sign-ups: edit and replay, discard, pruning."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.domains.dead_letters.replay.jobs import prune_dead_letters
from catraca.platform.auth import sign_token
from catraca.roles.replay_targets import replay_targets
from tests.domains.onboarding.harness import Receipt, SignUpHarness, message, new_address, on_both_buses
from tests.servers import until

pytestmark = on_both_buses
ROLES = ("ingester", "housekeeper", "relay", "notifier")


@pytest.fixture
def operator(harness: SignUpHarness) -> dict[str, str]:
    secret = harness.parts.settings.signing_secret()
    token = sign_token(secret, subject=uuid4(), roles=["operator"], lifetime=timedelta(hours=1))
    return {"authorization": f"Bearer {token}"}


async def died(harness: SignUpHarness, operator: dict[str, str]) -> tuple[Receipt, str, dict[str, str]]:
    """A sign-up that the database refused; returns its receipt, its letter's id and its body."""
    receipt = await harness.sign_up("Doomed Dora", new_address())
    async with harness.refusing("Doomed Dora"), harness.ingesting(*ROLES):
        await until(harness.dead_letters)
    [listed] = (await harness.api.get("/v1/dead-letters", headers=operator)).json()["items"]
    assert (listed["queue"], listed["reason"]) == ("raffle_queue", "RaiseError")
    letter = (await harness.api.get(f"/v1/dead-letters/{listed['id']}", headers=operator)).json()
    return receipt, listed["id"], letter["body"]["value"]


async def test_edited_sign_up_adds_one_user_and_updates_its_status(
    harness: SignUpHarness, operator: dict[str, str]
) -> None:
    receipt, letter, body = await died(harness, operator)
    unfit = {"body": body | {"email": "nobody"}}
    answer = await harness.api.put(f"/v1/dead-letters/{letter}/body", json=unfit, headers=operator)
    assert (answer.status_code, answer.json()["code"]) == (422, "dead_letter_body_unfit")
    assert answer.json()["reason"] == "email_malformed"
    mended = {"body": body | {"name": "Dora Lima"}}
    answer = await harness.api.put(f"/v1/dead-letters/{letter}/body", json=mended, headers=operator)
    assert answer.status_code == 200, answer.text
    async with harness.refusing("Doomed Dora"), harness.ingesting(*ROLES):
        for _ in range(2):
            answer = await harness.api.post(f"/v1/dead-letters/{letter}/replay", headers=operator)
            assert answer.status_code == 200, answer.text
            await until(lambda: _is(harness, receipt, "created"))
        await until(harness.is_empty)
    person = await harness.person(receipt.id)
    assert person is not None
    assert person["name"] == "Dora Lima"
    assert await harness.event_keys(receipt.id) == ["user.created"]
    assert (await harness.api.get("/v1/dead-letters", headers=operator)).json()["items"] == []


async def test_discarded_sign_up_has_the_status_rejected(
    harness: SignUpHarness, operator: dict[str, str]
) -> None:
    receipt, letter, _ = await died(harness, operator)
    assert await harness.ask(receipt) == ("queued", None)
    answer = await harness.api.post(
        f"/v1/dead-letters/{letter}/discard", json={"reason": "Pediu para sair"}, headers=operator
    )
    assert answer.status_code == 200, answer.text
    assert await harness.ask(receipt) == ("rejected", "discarded")


async def test_pruned_dead_letter_rejects_its_sign_up(
    harness: SignUpHarness, operator: dict[str, str]
) -> None:
    receipt, _, _ = await died(harness, operator)
    targets = replay_targets(harness.parts.topology)
    await harness.parts.database.run(
        lambda db: prune_dead_letters(db, older_than=timedelta(0), targets=targets)
    )
    assert await harness.dead_letters() == []
    assert await harness.ask(receipt) == ("rejected", "discarded")


async def test_discard_of_a_foreign_message_rejects_nothing(
    harness: SignUpHarness, operator: dict[str, str]
) -> None:
    await harness.put(message(b"{no json"))
    async with harness.ingesting(*ROLES):
        await until(harness.dead_letters)
    [listed] = (await harness.api.get("/v1/dead-letters", headers=operator)).json()["items"]
    replayed = await harness.api.post(f"/v1/dead-letters/{listed['id']}/replay", headers=operator)
    assert replayed.json()["code"] == "dead_letter_not_json"
    answer = await harness.api.post(
        f"/v1/dead-letters/{listed['id']}/discard", json={"reason": "Não é nosso"}, headers=operator
    )
    assert answer.status_code == 200, answer.text
    assert [UUID(str(row["id"])) for row in await harness.fetch("SELECT id FROM sign_ups")] == []


async def _is(harness: SignUpHarness, receipt: Receipt, status: str) -> bool:
    return (await harness.ask(receipt))[0] == status
