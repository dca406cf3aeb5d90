"""A sign-up that died: an operator mends and replays it, or gives it up, and its owner is told the truth."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.domains.dead_letters.replay.jobs import prune_dead_letters
from catraca.platform.auth import sign_token
from catraca.roles.replay_targets import replay_targets
from tests.domains.onboarding.desk import Desk, Taken, an_address, message, on_both_buses
from tests.servers import until

pytestmark = on_both_buses
ROLES = ("ingester", "housekeeper", "relay", "notifier")


@pytest.fixture
def operator(desk: Desk) -> dict[str, str]:
    secret = desk.parts.settings.signing_secret()
    token = sign_token(secret, subject=uuid4(), roles=["operator"], lifetime=timedelta(hours=1))
    return {"authorization": f"Bearer {token}"}


async def died(desk: Desk, operator: dict[str, str]) -> tuple[Taken, str, dict[str, str]]:
    """A sign-up that the database would not take: itself, its letter's id and its body."""
    taken = await desk.sign_up("Doomed Dora", an_address())
    async with desk.refusing("Doomed Dora"), desk.ingesting(*ROLES):
        await until(desk.dead_letters)
    [listed] = (await desk.api.get("/v1/dead-letters", headers=operator)).json()["items"]
    assert (listed["queue"], listed["reason"]) == ("raffle_queue", "RaiseError")
    letter = (await desk.api.get(f"/v1/dead-letters/{listed['id']}", headers=operator)).json()
    return taken, listed["id"], letter["body"]["value"]


async def test_a_mended_sign_up_becomes_a_person_once_and_its_owner_hears_so(
    desk: Desk, operator: dict[str, str]
) -> None:
    taken, letter, body = await died(desk, operator)
    unfit = {"body": body | {"email": "nobody"}}
    answer = await desk.api.put(f"/v1/dead-letters/{letter}/body", json=unfit, headers=operator)
    assert (answer.status_code, answer.json()["code"]) == (422, "dead_letter_body_unfit")
    assert answer.json()["reason"] == "email_malformed"
    mended = {"body": body | {"name": "Dora Lima"}}
    answer = await desk.api.put(f"/v1/dead-letters/{letter}/body", json=mended, headers=operator)
    assert answer.status_code == 200, answer.text
    async with desk.refusing("Doomed Dora"), desk.ingesting(*ROLES):
        for _ in range(2):
            answer = await desk.api.post(f"/v1/dead-letters/{letter}/replay", headers=operator)
            assert answer.status_code == 200, answer.text
            await until(lambda: _is(desk, taken, "created"))
        await until(desk.is_empty)
    person = await desk.person(taken.id)
    assert person is not None
    assert person["name"] == "Dora Lima"
    assert await desk.told(taken.id) == ["user.created"]
    assert (await desk.api.get("/v1/dead-letters", headers=operator)).json()["items"] == []


async def test_a_discarded_sign_up_is_rejected_and_its_owner_hears_so(
    desk: Desk, operator: dict[str, str]
) -> None:
    taken, letter, _ = await died(desk, operator)
    assert await desk.ask(taken) == ("queued", None)
    answer = await desk.api.post(
        f"/v1/dead-letters/{letter}/discard", json={"reason": "Pediu para sair"}, headers=operator
    )
    assert answer.status_code == 200, answer.text
    assert await desk.ask(taken) == ("rejected", "discarded")


async def test_a_sign_up_that_nobody_mended_in_time_is_rejected_when_its_letter_goes(
    desk: Desk, operator: dict[str, str]
) -> None:
    taken, _, _ = await died(desk, operator)
    targets = replay_targets(desk.parts.topology)
    await desk.parts.database.run(lambda db: prune_dead_letters(db, older_than=timedelta(0), targets=targets))
    assert await desk.dead_letters() == []
    assert await desk.ask(taken) == ("rejected", "discarded")


async def test_a_letter_that_never_was_a_sign_up_is_discarded_without_a_word(
    desk: Desk, operator: dict[str, str]
) -> None:
    await desk.put(message(b"{no json"))
    async with desk.ingesting(*ROLES):
        await until(desk.dead_letters)
    [listed] = (await desk.api.get("/v1/dead-letters", headers=operator)).json()["items"]
    replayed = await desk.api.post(f"/v1/dead-letters/{listed['id']}/replay", headers=operator)
    assert replayed.json()["code"] == "dead_letter_not_json"
    answer = await desk.api.post(
        f"/v1/dead-letters/{listed['id']}/discard", json={"reason": "Não é nosso"}, headers=operator
    )
    assert answer.status_code == 200, answer.text
    assert [UUID(str(row["id"])) for row in await desk.fetch("SELECT id FROM sign_ups")] == []


async def _is(desk: Desk, taken: Taken, status: str) -> bool:
    return (await desk.ask(taken))[0] == status
