"""Mail by SMTP. A server that is away is retried; a refused address fails the letter."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

import structlog

from catraca.platform.errors import Away

log = structlog.get_logger()

SEND_SECONDS = 5.0
PORTS = {"smtp": 587, "smtps": 465}
PERMANENT = 500


class MailAway(Away):
    """The mail server does not answer, or asks to try later."""


class MailRefused(Exception):
    """The mail server refuses this letter for good."""

    code = "mail_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    to: str
    subject: str
    text: str


class Mailer:
    """Sends one letter at a time, in a thread. `url` is `smtp://user:password@host:port`, or smtps.

    With `smtp`, letters are sent after STARTTLS, and the server's certificate is verified. `needs_tls=False`
    uses what the server offers, unverified or nothing; a password is never sent so.
    """

    def __init__(self, url: str, *, sender: str, needs_tls: bool = True) -> None:
        parts = urlsplit(url)
        self._encrypted = parts.scheme == "smtps"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or PORTS[parts.scheme]
        self._user = unquote(parts.username) if parts.username else None
        self._password = unquote(parts.password or "")
        self._sender = sender
        self._needs_tls = needs_tls or self._user is not None

    async def send(self, letter: Letter) -> None:
        """Raises `MailAway` or `MailRefused`; after either the letter may be sent again."""
        await asyncio.to_thread(self._send, self._composed(letter))

    def _composed(self, letter: Letter) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = Address(addr_spec=letter.to) if letter.to.isascii() else letter.to
        message["Subject"] = letter.subject
        message.set_content(letter.text)
        return message

    def _send(self, message: EmailMessage) -> None:
        try:
            server = self._connected()
        except (OSError, smtplib.SMTPException) as error:  # a wrong password too: the operator can correct it
            raise MailAway(type(error).__name__) from error
        with server:
            try:
                server.send_message(message)
            except smtplib.SMTPRecipientsRefused as error:
                raise _judged(max(code for code, _ in error.recipients.values())) from error
            except smtplib.SMTPResponseException as error:
                raise _judged(error.smtp_code) from error
            except (smtplib.SMTPNotSupportedError, ValueError) as error:  # an address it does not support
                raise MailRefused(type(error).__name__) from error
            except (OSError, smtplib.SMTPException) as error:
                raise MailAway(type(error).__name__) from error

    def _connected(self) -> smtplib.SMTP:
        context = ssl.create_default_context()
        if self._encrypted:
            server = smtplib.SMTP_SSL(self._host, self._port, timeout=SEND_SECONDS, context=context)
        else:
            server = smtplib.SMTP(self._host, self._port, timeout=SEND_SECONDS)
        try:
            if not self._encrypted:
                self._start_tls(server, context)
            if self._user is not None:
                server.login(self._user, self._password)
        except BaseException:
            server.close()
            raise
        return server

    def _start_tls(self, server: smtplib.SMTP, context: ssl.SSLContext) -> None:
        server.ehlo_or_helo_if_needed()
        if self._needs_tls:
            if not server.has_extn("starttls"):
                log.error(
                    "mail_server_without_tls", remedy="use another CATRACA_MAIL_URL, or CATRACA_MAIL_TLS"
                )
            server.starttls(context=context)
        elif server.has_extn("starttls"):
            # Against listeners only: the certificates of local mail servers are often their own.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            server.starttls(context=context)


def _judged(code: int) -> Exception:
    """4xx: try later. 5xx: refused for good."""
    return MailRefused(str(code)) if code >= PERMANENT else MailAway(str(code))
