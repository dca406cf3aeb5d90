"""The welcome mail with a link to the first password."""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from catraca.domains import people
from catraca.platform.bus.outcome import PAUSES
from catraca.settings import Settings
from tests.conftest import free_port
from tests.domains.onboarding.harness import QUICK, SignUpHarness, new_address
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
async def harness(stack: Stack, settings: Settings, post: MailServer) -> AsyncIterator[SignUpHarness]:
    letters = {"mail_url": post.url, "mail_from": "catraca@example.org", "password_page_url": PAGE}
    with capture_logs() as log:
        async with (
            own_parts(stack, settings, **QUICK, **letters) as parts,
            served(parts) as here,
            here.client() as client,
        ):
            yield SignUpHarness(parts, client, log)


async def test_welcome_link_sets_the_first_password(harness: SignUpHarness, post: MailServer) -> None:
    address = new_address()
    async with harness.ingesting(*ROLES):
        await harness.sign_up("Rosa Lima", address)
        await until(lambda: post.letters)
    (letter,) = post.letters
    text = letter.get_content()
    assert letter["To"] == address
    assert "Rosa" not in text, "a caller could sign up another person with any text as the name"
    found = re.search(re.escape(PAGE) + r"#token=(\S+)", text)
    assert found is not None
    password = "seven quiet turnstiles"
    answer = await harness.api.post("/v1/auth/password", json={"token": found[1], "password": password})
    assert answer.status_code == 204, answer.text
    signed_in = await harness.api.post("/v1/auth/token", json={"email": address, "password": password})
    assert signed_in.status_code == 200


async def test_welcome_mail_is_in_the_users_language(harness: SignUpHarness, post: MailServer) -> None:
    async with harness.ingesting(*ROLES):
        for language in ("en", "pt-BR"):
            body = {"name": "Ana", "email": new_address()}
            await harness.api.post("/v1/users", json=body, headers={"accept-language": language})
        await until(lambda: len(post.letters) == 2)
    assert {letter["Subject"] for letter in post.letters} == {"Welcome to Catraca", "Boas-vindas à Catraca"}


async def test_user_added_by_a_token_gets_no_mail(harness: SignUpHarness, post: MailServer) -> None:
    principal = uuid4()
    await harness.parts.database.run(
        lambda db: people.ensure_user(db, principal, roles=["passenger"], driver_approval="automatic")
    )
    async with harness.ingesting(*ROLES):
        await harness.sign_up()
        await until(lambda: post.letters)
        await until(lambda: _all_handled(harness))
    assert len(post.letters) == 1


async def test_unavailable_mail_server_delays_only_the_mail(harness: SignUpHarness, post: MailServer) -> None:
    post.answer = "451 later"
    pauses = PAUSES.labels("notification_users_queue")._value.get
    before = pauses()
    async with harness.ingesting(*ROLES):
        receipt = await harness.sign_up()
        await until(lambda: pauses() > before)
        assert await harness.person(receipt.id) is not None
        post.answer = "250 taken"
        await until(lambda: post.letters)
    assert len(post.letters) == 1


async def test_refused_mail_address_leaves_no_link(harness: SignUpHarness, post: MailServer) -> None:
    post.answer = "550 no such mailbox"
    async with harness.ingesting(*ROLES):
        await harness.sign_up()
        await until(lambda: any(line["event"] == "message_retried" for line in harness.log))
        async with harness.parts.database.connection() as db:
            assert await db.fetchval("SELECT count(*) FROM password_links") == 0
    (line,) = [line for line in harness.log if line["event"] == "message_retried"]
    assert line["reason"] == "mail_refused"


async def _all_handled(harness: SignUpHarness) -> bool:
    async with harness.parts.database.connection() as db:
        unsent = await db.fetchval("SELECT count(*) FROM outbox")
    return unsent == 0 and (await harness.parts.bus.depths())["notification_users_queue"] == 0
