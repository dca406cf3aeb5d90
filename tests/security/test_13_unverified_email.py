"""An e-mail address counts once its mailbox has confirmed it, and no answer tells which addresses exist."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from catraca.settings import Settings
from tests.conftest import free_port
from tests.domains.people.mailbox import Mailbox, opened_mailbox
from tests.domains.people.person import Person
from tests.servers import Stack


@pytest.fixture
async def mail(stack: Stack, settings: Settings) -> AsyncIterator[Mailbox]:
    async with opened_mailbox(stack, settings, port=free_port()) as mailbox:
        yield mailbox


async def test_foreign_address_is_not_blocked_by_a_claim(api: httpx.AsyncClient) -> None:
    """The finding: PATCH takes a free address at once, and its owner cannot use it any more."""
    address = f"{uuid4()}@example.com"
    thief, owner = Person(), Person()
    claimed = await thief.change(api, email=address)
    assert claimed.status_code == 200
    assert (claimed.json()["email"], claimed.json()["email_pending"]) == (None, address)
    await owner.with_address(api, address)
    late = await api.post("/v1/me/email/confirm", headers=thief.headers, json={"code": "00000000"})
    assert late.json()["code"] == "email_code_invalid"


async def test_answer_is_the_same_for_a_taken_address(api: httpx.AsyncClient) -> None:
    """The finding: 409 `email_taken` tells which addresses have an account."""
    known = await Person().with_email(api)
    answers: list[str] = []
    for address in (known.email, known.email.upper(), f"{uuid4()}@example.com"):
        stranger = Person()
        answer = await stranger.change(api, email=address)
        assert answer.status_code == 200
        body = answer.text.replace(address, "ADDRESS").replace(str(stranger.id), "ID")
        answers.append(body.replace(answer.json()["created_at"], "AT"))
        wrong = await api.post("/v1/me/email/confirm", headers=stranger.headers, json={"code": "00000000"})
        answers[-1] += f"{wrong.status_code} {wrong.json()['code']}"
    assert len(set(answers)) == 1


async def test_owner_learns_of_a_claim_by_mail(mail: Mailbox) -> None:
    owner, thief = Person(), Person()
    await owner.change(mail.api, email=owner.email)
    await mail.confirm(owner, await mail.code_for(owner.email))
    await thief.change(mail.api, email=owner.email)
    letter = await mail.letter_to(owner.email)
    assert letter["Subject"] in ("Pediram para usar seu e-mail", "Your e-mail address was asked for")
    assert not any(character.isdigit() for character in letter.get_content()), "there is no code in it"
    assert await mail.profile(thief) == (None, owner.email)


async def test_code_of_the_mailbox_makes_the_address_count(mail: Mailbox) -> None:
    ana = Person()
    await ana.change(mail.api, email=ana.email)
    code = await mail.code_for(ana.email)
    assert (await mail.confirm(ana, code)).status_code == 204
    assert await mail.profile(ana) == (ana.email, None)
