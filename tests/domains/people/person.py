"""People for the tests: a token, and an account on request."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx

from catraca.domains import people
from catraca.platform.database import Database
from tests.conftest import bearer

PASSWORD = "seven quiet turnstiles"


@dataclass
class Person:
    """A token of a person; `known_to` adds the account."""

    role: str = "passenger"
    id: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        self.headers = bearer(self.role, self.id)

    @property
    def email(self) -> str:
        return f"{self.id}@example.com"

    async def known_to(self, api: httpx.AsyncClient) -> "Person":
        assert (await api.get("/v1/me", headers=self.headers)).status_code == 200
        return self

    async def change(self, api: httpx.AsyncClient, **fields: object) -> httpx.Response:
        return await api.patch("/v1/me", headers=self.headers, json=fields)

    async def with_email(self, api: httpx.AsyncClient) -> "Person":
        return await self.with_address(api, self.email)

    async def with_address(self, api: httpx.AsyncClient, email: str) -> "Person":
        """Change the e-mail address; an operator confirms it."""
        assert (await self.change(api, email=email)).status_code == 200
        confirmed = await api.post(f"/v1/users/{self.id}/email/confirm", headers=bearer("operator"))
        assert confirmed.json()["email"] == email, confirmed.text
        return self

    async def with_password(self, api: httpx.AsyncClient, password: str = PASSWORD) -> "Person":
        """Set e-mail and password, which revokes the token."""
        await self.with_email(api)
        answer = await use_link(api, await link_for(api, self), password)
        assert answer.status_code == 204
        return self


async def link_for(api: httpx.AsyncClient, person: Person) -> str:
    answer = await api.post(f"/v1/users/{person.id}/password-link", headers=bearer("operator"))
    assert answer.status_code == 201
    return answer.json()["token"]


async def use_link(api: httpx.AsyncClient, token: str, password: str = PASSWORD) -> httpx.Response:
    return await api.post("/v1/auth/password", json={"token": token, "password": password})


async def sign_in(
    api: httpx.AsyncClient, email: str, password: str = PASSWORD, **headers: str
) -> httpx.Response:
    return await api.post(
        "/v1/auth/token", json={"email": email, "password": password}, headers=headers or None
    )


async def may_drive(database: Database, driver: Person) -> bool:
    async with database.connection() as db:
        return await people.may_drive(db, people.UserId(driver.id))


async def actions_on(database: Database, person: Person) -> list[tuple[UUID, str]]:
    """Actor and action of the audit entries about the person."""
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT actor_id, action FROM audit_log WHERE subject_id = $1 ORDER BY at", str(person.id)
        )
    return [(row["actor_id"], row["action"]) for row in rows]
