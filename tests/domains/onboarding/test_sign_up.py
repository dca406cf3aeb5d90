"""Sign-ups by HTTP."""

import asyncio
from uuid import UUID, uuid4

import msgspec
import pytest

from tests.domains.onboarding.harness import PATHS, SignUpHarness, new_address, on_both_buses
from tests.domains.people.person import Person

pytestmark = on_both_buses


@pytest.mark.parametrize("path", PATHS)
async def test_queued_sign_up_becomes_a_user(harness: SignUpHarness, path: str) -> None:
    email = f"Maria.{uuid4().hex}@Example.COM"
    answer = await harness.post("  Joa\u0303o da Silva ", email, path=path)
    assert answer.status_code == 200
    assert set(answer.json()) == {"id", "status", "status_token"}
    assert answer.json()["status"] == "queued"
    assert answer.headers["cache-control"] == "no-store"
    await harness.until_waiting(1)
    receipt = await harness.sign_up(email=new_address())
    assert await harness.ask(receipt) == ("queued", None)
    await harness.ingested(receipt.id)
    assert await harness.ask(receipt) == ("created", None)
    (person,) = await harness.fetch("SELECT * FROM users WHERE email_folded = $1", email.lower())
    assert str(person["id"]) == answer.json()["id"]
    assert (person["name"], person["email"], person["roles"]) == ("João da Silva", email, ["passenger"])
    assert (person["language"], person["password_hash"]) == ("en", None)
    assert await harness.event_keys(person["id"]) == ["user.created"]


async def test_repeat_with_the_same_key_is_the_same_sign_up(harness: SignUpHarness) -> None:
    key, email = uuid4().hex, new_address()
    answers = await asyncio.gather(
        *(harness.post("Ana", email, key=key, path=path) for path in PATHS for _ in range(4)),
        # Another spelling of the same name and address.
        harness.post("Ana ", email.upper(), key=key),
    )
    assert {answer.status_code for answer in answers} == {200}
    receipt = await harness.sign_up("Ana", email, key=key)
    (body,) = {answer.content for answer in answers}
    assert msgspec.json.decode(body) == {
        "id": str(receipt.id),
        "status": "queued",
        "status_token": receipt.token,
    }
    await harness.ingested(receipt.id)
    assert await harness.ask(receipt) == ("created", None)
    again = await harness.sign_up("Ana", email, key=key)
    assert again == receipt
    await harness.ingested()
    assert await harness.ask(receipt) == ("created", None)
    assert len(await harness.fetch("SELECT id FROM users WHERE email_folded = $1", email)) == 1
    assert await harness.event_keys(receipt.id) == ["user.created"]


@pytest.mark.parametrize("changed", ["name", "email"])
async def test_another_body_with_a_used_key_is_rejected(harness: SignUpHarness, changed: str) -> None:
    key, email = uuid4().hex, new_address()
    first = await harness.sign_up("Ana", email, key=key)
    await harness.ingested(first.id)
    other = {"name": "Ana", "email": email} | {changed: "Rui" if changed == "name" else new_address()}
    second = await harness.sign_up(**other, key=key)
    assert second.id == first.id
    assert second.token != first.token
    await harness.ingested()
    assert await harness.ask(first) == ("created", None)
    assert await harness.ask(second) == ("rejected", "key_reused")
    person = await harness.person(first.id)
    assert person is not None
    assert (person["name"], person["email"]) == ("Ana", email)
    assert await harness.event_keys(first.id) == ["user.created"]


async def test_concurrent_bodies_with_one_key_have_one_winner(harness: SignUpHarness) -> None:
    key = uuid4().hex
    both = [await harness.sign_up(name, key=key) for name in ("Ana", "Rui")]
    await harness.ingested(both[0].id)
    statuses = [await harness.ask(receipt) for receipt in both]
    assert sorted(statuses) == [("created", None), ("rejected", "key_reused")]
    person = await harness.person(both[0].id)
    assert person is not None
    assert person["name"] == ("Ana", "Rui")[statuses.index(("created", None))]


async def test_requests_without_a_key_are_separate_sign_ups(harness: SignUpHarness) -> None:
    email = new_address()
    first = await harness.sign_up("Ana", email)
    await harness.ingested(first.id)
    second = await harness.sign_up("Ana", email)
    assert first.id != second.id
    await harness.ingested(second.id)
    assert await harness.ask(first) == ("created", None)
    assert await harness.ask(second) == ("rejected", "email_taken")
    assert await harness.event_keys(first.id) == ["user.created"]
    assert await harness.event_keys(second.id) == ["user.rejected"]
    assert await harness.person(second.id) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ana.{}@example.com", "ANA.{}@Example.Com"),
        ("straße.{}@example.com", "STRASSE.{}@example.com"),
        ("i\u0307.{}@example.com", "İ.{}@example.com"),
        ("ａｎａ.{}@example.com", "ana.{}@example.com"),
        ("jose\u0301.{}@example.com", "JOSÉ.{}@example.com"),
        ("ﬁm.{}@example.com", "FIM.{}@example.com"),
    ],
)
async def test_two_spellings_of_an_address_add_one_user(harness: SignUpHarness, one: str, other: str) -> None:
    tag = uuid4().hex
    first = await harness.sign_up(email=one.format(tag))
    second = await harness.sign_up(email=other.format(tag))
    await harness.ingested(first.id, second.id)
    third = await harness.sign_up(email=other.format(tag).swapcase())
    await harness.ingested(third.id)
    in_one_batch = sorted([await harness.outcome(first.id), await harness.outcome(second.id)])
    assert in_one_batch == ["created", "email_taken"]
    assert await harness.outcome(third.id) == "email_taken"


async def test_similar_addresses_are_different(harness: SignUpHarness) -> None:
    tag = uuid4().hex
    receipt = [
        await harness.sign_up(email=f"{name}.{tag}@example.com") for name in ("ı", "i", "jose", "josé")
    ]
    await harness.ingested(*(one.id for one in receipt))
    assert [await harness.outcome(one.id) for one in receipt] == ["created"] * 4


async def test_address_of_an_existing_user_is_taken(harness: SignUpHarness) -> None:
    rui = await Person().with_email(harness.api)
    receipt = await harness.sign_up(email=rui.email.upper())
    await harness.ingested(receipt.id)
    assert await harness.ask(receipt) == ("rejected", "email_taken")


async def test_language_is_the_callers(harness: SignUpHarness) -> None:
    body = {"name": "João", "email": new_address()}
    answer = await harness.api.post("/v1/users", json=body, headers={"accept-language": "pt-PT,pt;q=0.9"})
    portuguese, english = UUID(answer.json()["id"]), (await harness.sign_up()).id
    await harness.ingested(portuguese, english)
    people = [await harness.person(portuguese), await harness.person(english)]
    assert [person["language"] for person in people if person] == ["pt-BR", "en"]
