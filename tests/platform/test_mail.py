"""Letters by SMTP: sent, refused for good, or retried."""

import pytest

from catraca.platform.mail import Letter, MailAway, Mailer, MailRefused
from tests.conftest import free_port
from tests.support.mail_server import mail_server

LETTER = Letter(to="ana@example.com", subject="Boas-vindas à Catraca", text="Olá!\n\nAbra o link.\n")


async def test_letter_arrives_unchanged() -> None:
    async with mail_server(free_port()) as server:
        await Mailer(server.url, sender="Catraca <catraca@example.org>", needs_tls=False).send(LETTER)
    (letter,) = server.letters
    assert letter["To"] == LETTER.to
    assert letter["From"] == "Catraca <catraca@example.org>"
    assert letter["Subject"] == LETTER.subject
    assert letter.get_content().splitlines() == LETTER.text.splitlines()


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        ("451 later", MailAway),
        ("421 closing", MailAway),
        ("550 no such mailbox", MailRefused),
        ("552 too much", MailRefused),
    ],
)
async def test_4xx_is_retried_and_5xx_refuses_the_letter(answer: str, raised: type[Exception]) -> None:
    async with mail_server(free_port()) as server:
        server.answer = answer
        with pytest.raises(raised):
            await Mailer(server.url, sender="catraca@example.org", needs_tls=False).send(LETTER)


async def test_unreachable_mail_server_is_away() -> None:
    with pytest.raises(MailAway):
        await Mailer(f"smtp://127.0.0.1:{free_port()}", sender="catraca@example.org").send(LETTER)


async def test_no_password_is_sent_without_encryption() -> None:
    async with mail_server(port := free_port()) as server:
        mailer = Mailer(f"smtp://ana:hunter2@127.0.0.1:{port}", sender="catraca@example.org")
        with pytest.raises(MailAway):
            await mailer.send(LETTER)
    assert server.letters == []


async def test_unsupported_address_refuses_the_letter() -> None:
    async with mail_server(free_port()) as server:
        with pytest.raises(MailRefused):
            await Mailer(server.url, sender="catraca@example.org", needs_tls=False).send(
                Letter(to="josé@example.com", subject="x", text="x")
            )
