"""People for the tests: a person met by a token, and what they own."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx

from tests.conftest import bearer

PASSWORD = "seven quiet turnstiles"


@dataclass
class Someone:
    """A person with a token; `known_to` makes the server meet them."""

    role: str = "passenger"
    id: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        self.headers = bearer(self.role, self.id)

    @property
    def email(self) -> str:
        return f"{self.id}@example.com"

    async def known_to(self, api: httpx.AsyncClient) -> "Someone":
        assert (await api.get("/v1/me", headers=self.headers)).status_code == 200
        return self

    async def change(self, api: httpx.AsyncClient, **fields: object) -> httpx.Response:
        return await api.patch("/v1/me", headers=self.headers, json=fields)

    async def with_email(self, api: httpx.AsyncClient) -> "Someone":
        assert (await self.change(api, email=self.email)).status_code == 200
        return self

    async def with_password(self, api: httpx.AsyncClient, password: str = PASSWORD) -> "Someone":
        """E-mail and password set; the token they had before no longer counts."""
        await self.with_email(api)
        answer = await use_link(api, await link_for(api, self), password)
        assert answer.status_code == 204
        return self


async def link_for(api: httpx.AsyncClient, someone: Someone) -> str:
    answer = await api.post(f"/v1/users/{someone.id}/password-link", headers=bearer("operator"))
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
