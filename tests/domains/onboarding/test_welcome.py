"""Whoever signed up is welcomed by mail, with a link to set a first password."""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from catraca.domains import people
from catraca.platform.bus.outcome import PAUSES
from catraca.settings import Settings
from tests.conftest import free_port
from tests.domains.onboarding.desk import QUICK, Desk, an_address
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.mail_server import MailServer, mail_server
from tests.support.roles import own_parts

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")
ROLES = ["relay", "ingester", "notifier"]
PAGE = "https://app.example.org/senha"


@pytest.fixture
async def post() -> AsyncIterator[MailServer]:
    async with mail_server(free_port()) as server:
        yield server


@pytest.fixture
async def desk(stack: Stack, settings: Settings, post: MailServer) -> AsyncIterator[Desk]:
    letters = {"mail_url": post.url, "mail_from": "catraca@example.org", "password_page_url": PAGE}
    with capture_logs() as log:
        async with (
            own_parts(stack, settings, **QUICK, **letters) as parts,
            served(parts) as here,
            here.client() as client,
        ):
            yield Desk(parts, client, log)


async def test_the_letters_link_sets_the_first_password(desk: Desk, post: MailServer) -> None:
    address = an_address()
    async with desk.ingesting(*ROLES):
        await desk.sign_up("Rosa Lima", address)
        await until(lambda: post.letters)
    (letter,) = post.letters
    text = letter.get_content()
    assert letter["To"] == address
    assert "Rosa" not in text, "whoever signs somebody else up must not put words into our letters"
    found = re.search(re.escape(PAGE) + r"#token=(\S+)", text)
    assert found is not None
    password = "seven quiet turnstiles"
    answer = await desk.api.post("/v1/auth/password", json={"token": found[1], "password": password})
    assert answer.status_code == 204, answer.text
    signed_in = await desk.api.post("/v1/auth/token", json={"email": address, "password": password})
    assert signed_in.status_code == 200


async def test_the_letter_is_in_the_language_of_who_signed_up(desk: Desk, post: MailServer) -> None:
    async with desk.ingesting(*ROLES):
        for language in ("en", "pt-BR"):
            body = {"name": "Ana", "email": an_address()}
            await desk.api.post("/v1/users", json=body, headers={"accept-language": language})
        await until(lambda: len(post.letters) == 2)
    assert {letter["Subject"] for letter in post.letters} == {"Welcome to Catraca", "Boas-vindas à Catraca"}


async def test_who_comes_by_a_token_gets_no_letter(desk: Desk, post: MailServer) -> None:
    principal = uuid4()
    await desk.parts.database.run(
        lambda db: people.ensure_user(db, principal, roles=["passenger"], driver_approval="automatic")
    )
    async with desk.ingesting(*ROLES):
        await desk.sign_up()
        await until(lambda: post.letters)
        await until(lambda: _all_handled(desk))
    assert len(post.letters) == 1


async def test_a_mail_server_that_is_away_holds_up_the_letter_and_nothing_else(
    desk: Desk, post: MailServer
) -> None:
    post.answer = "451 later"
    pauses = PAUSES.labels("notification_users_queue")._value.get
    before = pauses()
    async with desk.ingesting(*ROLES):
        taken = await desk.sign_up()
        await until(lambda: pauses() > before)
        assert await desk.person(taken.id) is not None
        post.answer = "250 taken"
        await until(lambda: post.letters)
    assert len(post.letters) == 1


async def test_an_address_that_is_refused_is_the_letters_own_fault_and_leaves_no_link(
    desk: Desk, post: MailServer
) -> None:
    post.answer = "550 no such mailbox"
    async with desk.ingesting(*ROLES):
        await desk.sign_up()
        await until(lambda: any(line["event"] == "message_retried" for line in desk.log))
        async with desk.parts.database.connection() as db:
            assert await db.fetchval("SELECT count(*) FROM password_links") == 0
    (line,) = [line for line in desk.log if line["event"] == "message_retried"]
    assert line["reason"] == "mail_refused"


async def _all_handled(desk: Desk) -> bool:
    async with desk.parts.database.connection() as db:
        unsent = await db.fetchval("SELECT count(*) FROM outbox")
    return unsent == 0 and (await desk.parts.bus.depths())["notification_users_queue"] == 0
