"""Requests without a valid token are refused, in the client's language."""

from uuid import uuid4

import httpx

from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import bearer, free_port, listening


async def test_missing_token_is_refused_in_the_clients_language(api: httpx.AsyncClient) -> None:
    english = await api.get("/v1/me", headers={"accept-language": "en-GB,en;q=0.9"})
    portuguese = await api.get("/v1/me", headers={"accept-language": "pt-BR"})
    for answer, language in ((english, "en"), (portuguese, "pt-BR")):
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["content-language"] == language
        assert answer.json()["code"] == "unauthenticated"
    assert "needs a token" in english.json()["detail"]
    assert "preciso um token" in portuguese.json()["detail"]


async def test_valid_token_creates_the_person_at_first_use(api: httpx.AsyncClient, database) -> None:
    sub = uuid4()
    assert (await api.get("/v1/me", headers=bearer("passenger", sub))).status_code == 200
    async with database.connection() as db:
        assert await db.fetchval("SELECT roles FROM users WHERE id = $1", sub) == ["passenger"]


async def test_anonymous_callers_cannot_exhaust_the_pool(settings: Settings) -> None:
    own = settings.changed(port=free_port(), database_connections=1)
    async with (
        open_parts(own) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url) as client,
        parts.database.connection(),
    ):
        for method, path in (("GET", "/v1/me"), ("PATCH", "/v1/me"), ("GET", "/v1/users")):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert (await client.get("/v1/me", headers=bearer())).status_code == 503
