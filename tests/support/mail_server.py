"""A mail server that records messages and can be made to refuse them or to be down."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope


@dataclass
class MailServer:
    url: str = ""
    letters: list[EmailMessage] = field(default_factory=list[EmailMessage])
    answer: str = "250 taken"
    # For each attempt, whether the connection was encrypted.
    encrypted: list[bool] = field(default_factory=list[bool])

    async def handle_DATA(self, _server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        self.encrypted.append(session.ssl is not None)
        if self.answer.startswith("250"):
            content = envelope.content
            assert isinstance(content, bytes)
            letter = message_from_bytes(content, policy=policy.default)
            assert isinstance(letter, EmailMessage)
            self.letters.append(letter)
        return self.answer


@asynccontextmanager
async def mail_server(port: int, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[MailServer]:
    """With `tls`, it offers STARTTLS."""
    server = MailServer(f"smtp://127.0.0.1:{port}")
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: SMTP(server, loop=loop, tls_context=tls), "127.0.0.1", port)
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
