"""Operators sign in with a second factor, and again before what cannot be undone."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import get_args
from uuid import uuid4

import httpx
import jwt
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from catraca.platform.auth import sign_token
from catraca.platform.clock import now
from catraca.platform.http import caller
from catraca.platform.http.health import Health
from catraca.platform.http.route import CheckedRoute
from catraca.roles.api import build_app
from catraca.roles.parts import Parts, open_parts
from catraca.settings import Settings
from tests.conftest import SECRET, bearer, free_port, listening
from tests.domains.people.authenticator import (
    begun,
    headers_of,
    operator_with_factor,
    sign_in_with,
    turned_on,
)
from tests.domains.people.person import PASSWORD, Person

# The routes that need a recent sign-in. A new one is added here, and in docs/operations.md.
FRESH = {
    "DELETE /v1/me",
    "DELETE /v1/users/{user_id}",
    "DELETE /v1/users/{user_id}/second-factor",
    "POST /v1/me/second-factor",
    "POST /v1/users/{user_id}/password-link",
    "PUT /v1/users/{user_id}/roles",
}


@pytest.fixture
async def strict(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """An API that requires the second factor of operators."""
    changed = settings.changed(port=free_port(), operator_second_factor="required")
    async with (
        open_parts(changed) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, headers={"accept-language": "en"}, timeout=30) as client,
    ):
        yield client


def signed(person: Person, *, age: timedelta = timedelta(0), **more: object) -> dict[str, str]:
    """Headers with an operator's token that was signed some time ago; `more` replaces claims."""
    token = sign_token(
        SECRET, subject=person.id, roles=["operator"], lifetime=timedelta(days=1), issued_at=now() - age
    )
    claims = jwt.decode(token, options={"verify_signature": False}) | more
    given = {name: value for name, value in claims.items() if value is not None}
    changed = jwt.encode(given, SECRET, algorithm="HS256", headers={"typ": "at+jwt"})
    return {"authorization": f"Bearer {changed}"}


async def test_password_alone_signs_no_operator_in(strict: httpx.AsyncClient) -> None:
    """The finding: with an operator's password alone, every act of an operator is possible."""
    operator = await Person("operator").with_password(strict)
    headers = headers_of(await sign_in_with(strict, operator))
    victim = await Person().known_to(strict)
    for method, path in [
        ("DELETE", f"/v1/users/{victim.id}"),
        ("GET", "/v1/users"),
        ("GET", f"/v1/users/{victim.id}/export"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/dead-letters"),
        ("GET", f"/v1/rides/{uuid4()}/timeline"),
    ]:
        answer = await strict.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_required"), path
    other = await strict.get(f"/v1/users/{victim.id}", headers=headers)
    assert other.status_code == 404, "as for a caller without roles"


async def test_every_operator_route_asks_for_the_factor(strict: httpx.AsyncClient, parts: Parts) -> None:
    (operators_only,) = get_args(caller.Operator)[1:]
    routes = routes_that_need(parts, operators_only.dependency)
    assert len(routes) > 30
    headers = signed(Person("operator"), amr=["pwd"])
    for method, path in routes:
        answer = await strict.request(
            method, re.sub(r"{[\w:]+}", str(uuid4()), path), headers=headers, json={}
        )
        assert answer.json()["code"] == "second_factor_required", f"{method} {path}"


async def test_operator_sets_the_factor_up_and_acts(strict: httpx.AsyncClient) -> None:
    operator = await Person("operator").with_password(strict)
    operator.headers = headers_of(await sign_in_with(strict, operator))
    app = await turned_on(strict, operator)
    without = await sign_in_with(strict, operator)
    assert (without.status_code, without.json()["code"]) == (401, "second_factor_required")
    answer = await sign_in_with(strict, operator, code=app.code())
    claims = jwt.decode(answer.json()["access_token"], options={"verify_signature": False})
    assert claims["amr"] == ["pwd", "otp"]
    assert claims["auth_time"] == claims["iat"]
    victim = await Person().known_to(strict)
    erased = await strict.delete(f"/v1/users/{victim.id}", headers=headers_of(answer))
    assert erased.status_code == 204


@pytest.mark.parametrize(
    ("methods", "status"),
    [(["mfa"], 200), (["pwd", "otp"], 200), (["pwd"], 403), ([], 403), (None, 403), ("otp", 403), ([1], 403)],
)
async def test_role_depends_on_the_tokens_methods(
    strict: httpx.AsyncClient, api: httpx.AsyncClient, methods: object, status: int
) -> None:
    headers = signed(Person("operator"), amr=methods)
    assert (await strict.get("/v1/users", headers=headers)).status_code == status
    assert (await api.get("/v1/users", headers=headers)).status_code == 200, "where it is optional"


async def test_token_made_with_the_secret_is_strong(strict: httpx.AsyncClient) -> None:
    assert (await strict.get("/v1/users", headers=bearer("operator"))).status_code == 200


@pytest.mark.parametrize(
    ("age", "more", "fresh"),
    [
        (timedelta(minutes=9), {}, True),
        (timedelta(minutes=11), {}, False),
        (timedelta(minutes=9), {"auth_time": None}, True),
        (timedelta(minutes=11), {"auth_time": None}, False),
        (timedelta(0), {"auth_time": 1_700_000_000}, False),
        (timedelta(0), {"auth_time": "today"}, False),
        (timedelta(minutes=11), {"auth_time": 99_999_999_999}, False),
    ],
)
async def test_erasing_needs_a_fresh_sign_in(
    api: httpx.AsyncClient, age: timedelta, more: dict[str, object], fresh: bool
) -> None:
    """The finding: an operator's token erases people as long as it is valid."""
    victim = await Person().known_to(api)
    headers = signed(Person("operator"), age=age, **more)
    assert (await api.get("/v1/users", headers=headers)).status_code == 200
    answer = await api.delete(f"/v1/users/{victim.id}", headers=headers)
    if fresh:
        assert answer.status_code == 204
        return
    assert (answer.status_code, answer.json()["code"]) == (401, "fresh_sign_in_required")
    assert answer.json()["max_age_seconds"] == 600
    assert (
        answer.headers["www-authenticate"] == 'Bearer error="insufficient_user_authentication", max_age="600"'
    )
    assert (await api.get("/v1/me", headers=victim.headers)).status_code == 200


def needs(dependant: Dependant, *calls: object) -> bool:
    return dependant.call in calls or any(needs(part, *calls) for part in dependant.dependencies)


def routes_that_need(parts: Parts, *calls: object) -> list[tuple[str, str]]:
    """Method and path of the routes with one of these dependencies."""
    app = build_app(parts, Health(parts.database, parts.redis, parts.bus))
    return [
        (method, route.path)
        for context in iter_route_contexts(app.routes)
        if isinstance(route := context.original_route, CheckedRoute) and needs(route.dependant, *calls)
        for method in route.methods
    ]


async def test_routes_with_a_fresh_sign_in_are_these(parts: Parts) -> None:
    found = routes_that_need(parts, caller._fresh, caller._fresh_operator)
    assert {f"{method} {path}" for method, path in found} == FRESH


async def test_old_token_is_refused_on_each_of_them(api: httpx.AsyncClient) -> None:
    operator, victim = Person("operator"), await Person().known_to(api)
    headers = signed(operator, age=timedelta(minutes=11))
    for route in FRESH:
        method, _, path = route.partition(" ")
        answer = await api.request(
            method, path.format(user_id=victim.id), headers=headers, json={"roles": ["passenger"]}
        )
        assert (answer.status_code, answer.json()["code"]) == (401, "fresh_sign_in_required"), route


async def test_wrong_password_never_asks_for_the_code(api: httpx.AsyncClient) -> None:
    operator, app = await operator_with_factor(api)
    plain = await Person().with_password(api)
    answers = [
        await sign_in_with(api, operator, "not the password"),
        await sign_in_with(api, operator, "not the password", code=app.code()),
        await sign_in_with(api, plain, "not the password"),
    ]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {
        (401, "credentials_invalid")
    }


async def test_operator_cannot_remove_the_own_factor(api: httpx.AsyncClient) -> None:
    """A thief of a fresh token would otherwise turn the factor off."""
    operator, _ = await operator_with_factor(api)
    path = f"/v1/users/{operator.id}/second-factor"
    assert (await api.delete(path, headers=operator.headers)).status_code == 403
    assert (await sign_in_with(api, operator, PASSWORD)).status_code == 401


async def test_begun_factor_is_not_asked_for(api: httpx.AsyncClient) -> None:
    ana = await Person().with_password(api)
    ana.headers = bearer("passenger", ana.id)
    await begun(api, ana)
    assert (await sign_in_with(api, ana)).status_code == 200
