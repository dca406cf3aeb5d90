"""The status of a sign-up, readable with its token only."""

import base64
from uuid import UUID, uuid4

import pytest

from tests.conftest import bearer
from tests.domains.onboarding.harness import Receipt, SignUpHarness, on_both_buses

pytestmark = on_both_buses


async def test_only_its_own_token_reads_the_status(harness: SignUpHarness) -> None:
    own, other = await harness.sign_up(), await harness.sign_up()
    token = own.token
    raw = base64.urlsafe_b64decode(token)
    bearers = [
        f"Bearer {other.token}",
        f"Bearer {token[:-1]}",
        f"Bearer {token[:-4]}",
        f"Bearer {token[4:]}",
        f"Bearer {token}=",
        f"Bearer {token}====",
        f"Bearer {token}AAAA",
        f"Bearer {token.swapcase()}",
        f"Bearer {base64.urlsafe_b64encode(raw[:16] + bytes(32)).decode()}",
        f"Bearer {base64.urlsafe_b64encode(bytes(16) + raw[16:]).decode()}",
        f"Bearer {raw.hex()}",
        f"Bearer {'A' * 64}",
        "Bearer é",
        "Bearer",
        f"Basic {token}",
        token,
        "",
        bearer("passenger", own.id)["authorization"],
        bearer("operator")["authorization"],
    ]
    refusals = [
        await harness.api.get(f"/v1/users/{own.id}/status", headers={"authorization": value.encode("utf-8")})
        for value in bearers
    ]
    refusals.append(await harness.api.get(f"/v1/users/{own.id}/status"))
    refusals.append(await harness.status(Receipt(uuid4(), token)))
    problems = [{**answer.json(), "request_id": "", "instance": ""} for answer in refusals]
    assert [answer.status_code for answer in refusals] == [404] * len(refusals)
    assert all(one == problems[0] for one in problems), "all refusals are the same"
    assert problems[0]["code"] == "not_found"
    assert await harness.ask(own) == ("queued", None)


async def test_token_has_one_spelling(harness: SignUpHarness) -> None:
    while "-" not in (receipt := await harness.sign_up()).token:
        pass
    other_alphabet = Receipt(receipt.id, receipt.token.replace("-", "+"))
    assert (await harness.status(other_alphabet)).status_code == 404
    assert await harness.ask(receipt) == ("queued", None)


async def test_status_token_gives_no_other_access(harness: SignUpHarness) -> None:
    receipt = await harness.sign_up()
    headers = {"authorization": f"Bearer {receipt.token}"}
    assert (await harness.api.get("/v1/me", headers=headers)).status_code == 401
    assert (await harness.api.get(f"/v1/users/{receipt.id}", headers=headers)).status_code == 401


@pytest.mark.parametrize("path_id", ["x", "00000000-0000-0000-0000-00000000000g"])
async def test_invalid_id_is_refused(harness: SignUpHarness, path_id: str) -> None:
    answer = await harness.api.get(f"/v1/users/{path_id}/status")
    assert answer.status_code == 422


async def test_erased_user_has_no_status_and_repeats_add_none(harness: SignUpHarness) -> None:
    key, email = uuid4().hex, f"{uuid4().hex}@example.com"
    receipt = await harness.sign_up("Ana", email, key=key)
    await harness.ingested(receipt.id)
    headers = bearer("passenger", receipt.id)
    exported = await harness.api.get("/v1/me/export", headers=headers)
    assert exported.json()["sections"]["sign_up"]["rejected"] is None
    assert exported.json()["sections"]["sign_up"]["handled_at"]
    assert receipt.token not in exported.text
    assert (await harness.api.delete("/v1/me", headers=headers)).status_code == 204
    gone = await harness.status(receipt)
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
    (kept,) = await harness.fetch("SELECT * FROM sign_ups WHERE id = $1", receipt.id)
    assert kept["request_id"] is None, "the row cannot be matched with a name and an address"
    again, another = await harness.sign_up("Ana", email, key=key), await harness.sign_up("Ana", email)
    await harness.ingested(another.id)
    assert (await harness.status(again)).status_code == 404
    assert await harness.ask(another) == ("created", None), "the address is free again"
    person = await harness.person(receipt.id)
    assert person is not None
    assert (person["name"], person["erased_at"] is None) == (None, False)
    assert await harness.event_keys(receipt.id) == ["user.created"]


async def test_user_without_a_sign_up_exports_none(harness: SignUpHarness) -> None:
    rui = bearer()
    exported = await harness.api.get("/v1/me/export", headers=rui)
    assert exported.json()["sections"]["sign_up"] is None
    assert (await harness.api.delete("/v1/me", headers=rui)).status_code == 204
    assert await harness.outcome(UUID(exported.json()["id"])) is None
