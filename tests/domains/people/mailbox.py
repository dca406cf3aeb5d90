"""An API with a mail server, and the letters that arrive."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage

import httpx

from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import free_port
from tests.domains.people.person import Person
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.mail_server import MailServer, mail_server
from tests.support.roles import own_parts, working


@dataclass
class Mailbox:
    parts: Parts
    api: httpx.AsyncClient
    server: MailServer

    async def letter_to(self, address: str) -> EmailMessage:
        """The newest letter to the address; waits for one, and removes it."""
        await until(lambda: self._to(address))
        letter = self._to(address)[-1]
        self.server.letters.remove(letter)
        return letter

    async def code_for(self, address: str) -> str:
        found = re.search(r"\b\d{8}\b", (await self.letter_to(address)).get_content())
        assert found is not None
        return found[0]

    async def confirm(self, person: Person, code: str) -> httpx.Response:
        return await self.api.post("/v1/me/email/confirm", headers=person.headers, json={"code": code})

    async def profile(self, person: Person) -> tuple[str | None, str | None]:
        """The address that counts, and the pending one."""
        me = (await self.api.get("/v1/me", headers=person.headers)).json()
        return me["email"], me["email_pending"]

    def _to(self, address: str) -> list[EmailMessage]:
        return [letter for letter in self.server.letters if letter["To"] == address]


@asynccontextmanager
async def opened_mailbox(stack: Stack, settings: Settings, **changes: object) -> AsyncIterator[Mailbox]:
    async with mail_server(free_port()) as server:
        mail = {"mail_url": server.url, "password_page_url": "https://app.example.org/senha"}
        async with (
            own_parts(stack, settings, **mail, **changes) as parts,
            served(parts) as here,
            here.client() as client,
            working(parts, ["relay", "notifier"]),
        ):
            yield Mailbox(parts, client, server)
