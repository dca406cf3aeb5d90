"""What became of a sign-up is told to whoever holds its token, and to nobody else."""

import base64
from uuid import UUID, uuid4

import pytest

from tests.conftest import bearer
from tests.domains.onboarding.desk import Desk, Taken, on_both_buses

pytestmark = on_both_buses


async def test_only_the_sign_ups_own_token_opens_its_status(desk: Desk) -> None:
    mine, theirs = await desk.sign_up(), await desk.sign_up()
    token = mine.token
    raw = base64.urlsafe_b64decode(token)
    bearers = [
        f"Bearer {theirs.token}",
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
        bearer("passenger", mine.id)["authorization"],
        bearer("operator")["authorization"],
    ]
    refusals = [
        await desk.api.get(f"/v1/users/{mine.id}/status", headers={"authorization": value.encode("utf-8")})
        for value in bearers
    ]
    refusals.append(await desk.api.get(f"/v1/users/{mine.id}/status"))
    refusals.append(await desk.status(Taken(uuid4(), token)))
    told = [{**answer.json(), "request_id": "", "instance": ""} for answer in refusals]
    assert [answer.status_code for answer in refusals] == [404] * len(refusals)
    assert all(one == told[0] for one in told), "whatever is wrong, the answer is the same"
    assert told[0]["code"] == "not_found"
    assert await desk.ask(mine) == ("queued", None)


async def test_a_token_has_one_spelling(desk: Desk) -> None:
    while "-" not in (taken := await desk.sign_up()).token:
        pass
    other_alphabet = Taken(taken.id, taken.token.replace("-", "+"))
    assert (await desk.status(other_alphabet)).status_code == 404
    assert await desk.ask(taken) == ("queued", None)


async def test_a_status_token_is_no_key_to_anything_else(desk: Desk) -> None:
    taken = await desk.sign_up()
    headers = {"authorization": f"Bearer {taken.token}"}
    assert (await desk.api.get("/v1/me", headers=headers)).status_code == 401
    assert (await desk.api.get(f"/v1/users/{taken.id}", headers=headers)).status_code == 401


@pytest.mark.parametrize("path_id", ["x", "00000000-0000-0000-0000-00000000000g"])
async def test_what_is_no_id_is_refused(desk: Desk, path_id: str) -> None:
    answer = await desk.api.get(f"/v1/users/{path_id}/status")
    assert answer.status_code == 422


async def test_of_an_erased_person_the_token_tells_nothing_and_repeats_bring_nobody_back(desk: Desk) -> None:
    key, email = uuid4().hex, f"{uuid4().hex}@example.com"
    taken = await desk.sign_up("Ana", email, key=key)
    await desk.ingested(taken.id)
    me = bearer("passenger", taken.id)
    exported = await desk.api.get("/v1/me/export", headers=me)
    assert exported.json()["sections"]["sign_up"]["rejected"] is None
    assert exported.json()["sections"]["sign_up"]["handled_at"]
    assert taken.token not in exported.text
    assert (await desk.api.delete("/v1/me", headers=me)).status_code == 204
    gone = await desk.status(taken)
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
    (kept,) = await desk.fetch("SELECT * FROM sign_ups WHERE id = $1", taken.id)
    assert kept["request_id"] is None, "what is left cannot be compared with a name and an address"
    again, another = await desk.sign_up("Ana", email, key=key), await desk.sign_up("Ana", email)
    await desk.ingested(another.id)
    assert (await desk.status(again)).status_code == 404
    assert await desk.ask(another) == ("created", None), "the address is free again"
    person = await desk.person(taken.id)
    assert person is not None
    assert (person["name"], person["erased_at"] is None) == (None, False)
    assert await desk.told(taken.id) == ["user.created"]


async def test_somebody_met_by_a_token_has_no_sign_up_to_export(desk: Desk) -> None:
    rui = bearer()
    exported = await desk.api.get("/v1/me/export", headers=rui)
    assert exported.json()["sections"]["sign_up"] is None
    assert (await desk.api.delete("/v1/me", headers=rui)).status_code == 204
    assert await desk.fate(UUID(exported.json()["id"])) is None
