"""Finding 11: a repeated request got its stored answer without the check of roles.

Every route that stores answers is called by its row of the authorisation table, and again with the same key
by the same person with a token of fewer roles.
"""

from typing import cast
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from catraca.platform.auth import ROLES
from catraca.platform.database import Database
from catraca.platform.http.caller import needs_caller
from catraca.platform.http.route import SAFE_METHODS, Gathered, UnitOfWork
from catraca.roles.api import ROUTERS
from tests.conftest import bearer
from tests.domains.people.person import Person
from tests.servers import on_one_stack
from tests.test_authorisation import CASES, Case, letter, send

pytestmark = on_one_stack
__all__ = ["letter"]  # the dead letter that some rows need

# These have no successful row: web push is not configured, and the appointment has not begun.
REFUSED_TO_ALL = {"POST /v1/push/subscriptions", "POST /v1/scheduling/appointments/{appointment_id}/no-show"}


def storing_routes() -> set[str]:
    """The routes whose answers are stored for an `Idempotency-Key`."""
    routes = [cast(APIRoute, route) for router in ROUTERS for route in router.routes]
    return {
        f"{method} {route.path_format}"
        for route in routes
        if isinstance(route, (UnitOfWork, Gathered)) and needs_caller(route.dependant)
        for method in route.methods - SAFE_METHODS
        if not getattr(route.endpoint, "stores_no_response", False)
    }


STORING = [case for case in CASES if case.route in storing_routes() - REFUSED_TO_ALL]


async def test_every_route_that_stores_answers_is_tested() -> None:
    succeeding = {case.route for case in CASES if min(case.own, case.operator) < 300}
    assert storing_routes() - REFUSED_TO_ALL <= succeeding
    assert len(STORING) > 40


@pytest.mark.parametrize("case", [pytest.param(case, id=case.route) for case in STORING])
async def test_stored_answer_needs_the_roles_of_the_first_token(api: httpx.AsyncClient, case: Case) -> None:
    owner = Person(case.owner)
    prepared = await case.prepare(api, owner)
    sub, role = (owner.id, case.owner) if case.own < 300 else (uuid4(), "operator")
    key = {"idempotency-key": str(uuid4())}

    async def ask(roles: list[str]) -> httpx.Response:
        return await send(api, case.route, prepared, bearer(roles, cast(UUID, sub)) | key)

    first = await ask([role])
    assert first.status_code < 300, first.text
    lesser = await ask([])
    assert lesser.status_code == (401 if case.route == "DELETE /v1/me" else 403)
    assert "idempotency-replayed" not in lesser.headers
    for roles in ([role], sorted(ROLES)):
        again = await ask(roles)
        if case.route != "DELETE /v1/me":
            assert again.headers["idempotency-replayed"] == "true"
            assert (again.status_code, again.content) == (first.status_code, first.content)


async def test_answers_stored_without_roles_are_not_replayed(
    api: httpx.AsyncClient, database: Database
) -> None:
    """Rows from before the roles were stored."""
    person = uuid4()
    headers = bearer("passenger", person) | {"idempotency-key": str(uuid4())}
    assert (await api.patch("/v1/me", json={"name": "Ana"}, headers=headers)).status_code == 200
    async with database.connection() as db:
        await db.execute(
            "UPDATE idempotency_keys SET roles = NULL WHERE substr(scope, 1, 16) = $1", person.bytes
        )
    assert (await api.patch("/v1/me", json={"name": "Ana"}, headers=headers)).status_code == 403
