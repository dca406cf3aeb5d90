"""Letters by SMTP: what is taken, what is refused for good, and what is waited for."""

import pytest

from catraca.platform.mail import Letter, MailAway, Mailer, MailRefused
from tests.conftest import free_port
from tests.support.mail_server import mail_server

LETTER = Letter(to="ana@example.com", subject="Boas-vindas à Catraca", text="Olá!\n\nAbra o link.\n")


async def test_a_letter_arrives_as_it_was_written() -> None:
    async with mail_server(free_port()) as server:
        await Mailer(server.url, sender="Catraca <catraca@example.org>").send(LETTER)
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
async def test_later_is_waited_for_and_never_is_the_letters_fault(
    answer: str, raised: type[Exception]
) -> None:
    async with mail_server(free_port()) as server:
        server.answer = answer
        with pytest.raises(raised):
            await Mailer(server.url, sender="catraca@example.org").send(LETTER)


async def test_a_mail_server_that_is_gone_is_waited_for() -> None:
    with pytest.raises(MailAway):
        await Mailer(f"smtp://127.0.0.1:{free_port()}", sender="catraca@example.org").send(LETTER)


async def test_no_password_is_sent_over_a_connection_that_cannot_be_encrypted() -> None:
    async with mail_server(port := free_port()) as server:
        mailer = Mailer(f"smtp://ana:hunter2@127.0.0.1:{port}", sender="catraca@example.org")
        with pytest.raises(MailAway):
            await mailer.send(LETTER)
    assert server.letters == []


async def test_an_address_that_no_mail_server_could_take_is_the_letters_fault() -> None:
    async with mail_server(free_port()) as server:
        with pytest.raises(MailRefused):
            await Mailer(server.url, sender="catraca@example.org").send(
                Letter(to="josé@example.com", subject="x", text="x")
            )
