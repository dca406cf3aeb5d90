"""Signing up over HTTP: what is answered, and what becomes of it."""

import asyncio
from uuid import UUID, uuid4

import msgspec
import pytest

from tests.domains.onboarding.desk import PATHS, Desk, an_address, on_both_buses
from tests.domains.people.someone import Someone

pytestmark = on_both_buses


@pytest.mark.parametrize("path", PATHS)
async def test_a_sign_up_is_answered_when_queued_and_is_a_person_a_moment_later(
    desk: Desk, path: str
) -> None:
    email = f"Maria.{uuid4().hex}@Example.COM"
    answer = await desk.post("  Joa\u0303o da Silva ", email, path=path)
    assert answer.status_code == 200
    assert set(answer.json()) == {"id", "status", "status_token"}
    assert answer.json()["status"] == "queued"
    assert answer.headers["cache-control"] == "no-store"
    await desk.until_waiting(1)
    taken = await desk.sign_up(email=an_address())
    assert await desk.ask(taken) == ("queued", None)
    await desk.ingested(taken.id)
    assert await desk.ask(taken) == ("created", None)
    (person,) = await desk.fetch("SELECT * FROM users WHERE email_folded = $1", email.lower())
    assert str(person["id"]) == answer.json()["id"]
    assert (person["name"], person["email"], person["roles"]) == ("João da Silva", email, ["passenger"])
    assert (person["language"], person["password_hash"]) == ("en", None)
    assert await desk.told(person["id"]) == ["user.created"]


async def test_a_repeat_with_the_same_key_is_the_same_sign_up(desk: Desk) -> None:
    key, email = uuid4().hex, an_address()
    answers = await asyncio.gather(
        *(desk.post("Ana", email, key=key, path=path) for path in PATHS for _ in range(4)),
        # Nor does it matter how the same name and address are spelt this time.
        desk.post("Ana ", email.upper(), key=key),
    )
    assert {answer.status_code for answer in answers} == {200}
    taken = await desk.sign_up("Ana", email, key=key)
    (body,) = {answer.content for answer in answers}
    assert msgspec.json.decode(body) == {"id": str(taken.id), "status": "queued", "status_token": taken.token}
    await desk.ingested(taken.id)
    assert await desk.ask(taken) == ("created", None)
    again = await desk.sign_up("Ana", email, key=key)
    assert again == taken
    await desk.ingested()
    assert await desk.ask(taken) == ("created", None)
    assert len(await desk.fetch("SELECT id FROM users WHERE email_folded = $1", email)) == 1
    assert await desk.told(taken.id) == ["user.created"]


@pytest.mark.parametrize("changed", ["name", "email"])
async def test_another_body_under_a_used_key_is_rejected_and_the_first_stays(
    desk: Desk, changed: str
) -> None:
    key, email = uuid4().hex, an_address()
    first = await desk.sign_up("Ana", email, key=key)
    await desk.ingested(first.id)
    other = {"name": "Ana", "email": email} | {changed: "Rui" if changed == "name" else an_address()}
    second = await desk.sign_up(**other, key=key)
    assert second.id == first.id
    assert second.token != first.token
    await desk.ingested()
    assert await desk.ask(first) == ("created", None)
    assert await desk.ask(second) == ("rejected", "key_reused")
    person = await desk.person(first.id)
    assert person is not None
    assert (person["name"], person["email"]) == ("Ana", email)
    assert await desk.told(first.id) == ["user.created"]


async def test_of_two_bodies_under_one_key_at_once_one_is_created(desk: Desk) -> None:
    key = uuid4().hex
    both = [await desk.sign_up(name, key=key) for name in ("Ana", "Rui")]
    await desk.ingested(both[0].id)
    told = [await desk.ask(taken) for taken in both]
    assert sorted(told) == [("created", None), ("rejected", "key_reused")]
    person = await desk.person(both[0].id)
    assert person is not None
    assert person["name"] == ("Ana", "Rui")[told.index(("created", None))]


async def test_without_a_key_every_request_is_a_sign_up_of_its_own(desk: Desk) -> None:
    email = an_address()
    first = await desk.sign_up("Ana", email)
    await desk.ingested(first.id)
    second = await desk.sign_up("Ana", email)
    assert first.id != second.id
    await desk.ingested(second.id)
    assert await desk.ask(first) == ("created", None)
    assert await desk.ask(second) == ("rejected", "email_taken")
    assert await desk.told(first.id) == ["user.created"]
    assert await desk.told(second.id) == ["user.rejected"]
    assert await desk.person(second.id) is None


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
async def test_two_spellings_of_one_address_make_one_person(desk: Desk, one: str, other: str) -> None:
    tag = uuid4().hex
    first = await desk.sign_up(email=one.format(tag))
    second = await desk.sign_up(email=other.format(tag))
    await desk.ingested(first.id, second.id)
    third = await desk.sign_up(email=other.format(tag).swapcase())
    await desk.ingested(third.id)
    in_one_batch = sorted([await desk.fate(first.id), await desk.fate(second.id)])
    assert in_one_batch == ["created", "email_taken"]
    assert await desk.fate(third.id) == "email_taken"


async def test_addresses_that_only_look_alike_are_two(desk: Desk) -> None:
    tag = uuid4().hex
    taken = [await desk.sign_up(email=f"{name}.{tag}@example.com") for name in ("ı", "i", "jose", "josé")]
    await desk.ingested(*(one.id for one in taken))
    assert [await desk.fate(one.id) for one in taken] == ["created"] * 4


async def test_an_address_that_came_by_another_way_is_taken_too(desk: Desk) -> None:
    rui = await Someone().with_email(desk.api)
    taken = await desk.sign_up(email=rui.email.upper())
    await desk.ingested(taken.id)
    assert await desk.ask(taken) == ("rejected", "email_taken")


async def test_the_language_is_the_callers(desk: Desk) -> None:
    body = {"name": "João", "email": an_address()}
    answer = await desk.api.post("/v1/users", json=body, headers={"accept-language": "pt-PT,pt;q=0.9"})
    portuguese, english = UUID(answer.json()["id"]), (await desk.sign_up()).id
    await desk.ingested(portuguese, english)
    people = [await desk.person(portuguese), await desk.person(english)]
    assert [person["language"] for person in people if person] == ["pt-BR", "en"]
