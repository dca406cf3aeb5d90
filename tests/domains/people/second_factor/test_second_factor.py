"""Second factors: each code works once, tries are limited, and a lost factor can be removed."""

import asyncio
import base64
from ipaddress import ip_network
from uuid import uuid4

import httpx
import pytest

from catraca.domains.people.model import UserId
from catraca.domains.people.second_factor import service
from catraca.domains.people.second_factor.errors import SecondFactorElsewhere, SecondFactorWrong
from catraca.domains.people.second_factor.model import FactorVault, Proof
from catraca.domains.people.second_factor.routes import _vault
from catraca.domains.people.second_factor.store import prune_begun_factors
from catraca.platform.database import Database
from catraca.platform.http.rate_limits import RateLimiter
from catraca.roles.api.domain_parts import second_factor_parts
from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import SECRET, free_port, listening
from tests.domains.people.authenticator import (
    begun,
    code_of,
    headers_of,
    operator_with_factor,
    sign_in_with,
    turned_on,
)
from tests.domains.people.person import Person, actions_on

FACTOR = "/v1/me/second-factor"


async def test_factor_is_shown_once_and_stored_encrypted(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_email(api)
    keyed = ana.headers | {"idempotency-key": str(uuid4())}
    answers = [(await api.post(FACTOR, headers=keyed)).json() for _ in range(2)]
    assert answers[0]["secret"] != answers[1]["secret"], "the response is not stored"
    assert answers[1]["uri"].startswith("otpauth://totp/Catraca:")
    assert f"secret={answers[1]['secret']}" in answers[1]["uri"]
    async with database.connection() as db:
        stored = await db.fetchval("SELECT secret FROM second_factors WHERE user_id = $1", ana.id)
    plain = base64.b32decode(answers[1]["secret"])
    assert plain not in stored
    assert FactorVault(SECRET).open(ana.id, stored) == plain
    assert FactorVault(SECRET).open(uuid4(), stored) is None, "sealed for its user"
    assert FactorVault("another secret").open(ana.id, stored) is None


async def test_code_works_once(api: httpx.AsyncClient) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    code = app.code()
    assert (await sign_in_with(api, ana, code=code)).status_code == 200
    again = await sign_in_with(api, ana, code=code)
    assert (again.status_code, again.json()["code"]) == (401, "second_factor_wrong")


async def test_code_that_confirmed_does_not_sign_in(api: httpx.AsyncClient) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    answer = await sign_in_with(api, ana, code=code_of(app.secret, app.last_step))
    assert answer.json()["code"] == "second_factor_wrong"


async def test_concurrent_uses_of_a_code_have_one_winner(api: httpx.AsyncClient, database: Database) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    for proof in (Proof(code=app.code()), Proof(recovery_code=app.recovery_codes[0])):
        outcomes = await asyncio.gather(
            *(
                database.run(
                    lambda db, proof=proof: service.check_factor(
                        db, UserId(ana.id), FactorVault(SECRET), proof
                    )
                )
                for _ in range(12)
            ),
            return_exceptions=True,
        )
        assert outcomes.count(True) == 1
        assert sum(isinstance(outcome, SecondFactorWrong) for outcome in outcomes) == 11


async def test_recovery_code_signs_in_once_in_any_spelling(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    assert len(set(app.recovery_codes)) == 10
    spelled = app.recovery_codes[3].upper().replace("-", " ")
    headers = headers_of(await sign_in_with(api, ana, recovery_code=spelled))
    assert (await sign_in_with(api, ana, recovery_code=spelled)).status_code == 401
    state = (await api.get(FACTOR, headers=headers)).json()
    assert (state["on"], state["recovery_codes_left"]) == (True, 9)
    async with database.connection() as db:
        stored = await db.fetch("SELECT r::text AS row FROM recovery_codes r WHERE user_id = $1", ana.id)
    assert not any(code.replace("-", "") in row["row"] for code in app.recovery_codes for row in stored)


async def test_new_recovery_codes_replace_the_old_ones(api: httpx.AsyncClient) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    answer = await api.post(f"{FACTOR}/recovery-codes", headers=ana.headers, json={"code": app.code()})
    new = answer.json()["recovery_codes"]
    assert not set(new) & set(app.recovery_codes)
    assert (await sign_in_with(api, ana, recovery_code=app.recovery_codes[0])).status_code == 401
    assert (await sign_in_with(api, ana, recovery_code=new[0])).status_code == 200


@pytest.mark.parametrize("path", ["confirm", "recovery-codes", "remove"])
async def test_wrong_code_is_refused_and_tries_are_limited(api: httpx.AsyncClient, path: str) -> None:
    ana = await Person().known_to(api)
    await (begun if path == "confirm" else turned_on)(api, ana)
    wrong = {"code": "000000"}
    answers = [await api.post(f"{FACTOR}/{path}", headers=ana.headers, json=wrong) for _ in range(11)]
    used = 0 if path == "confirm" else 1
    expected = [(422, "second_factor_code_wrong")] * (10 - used) + [(429, "too_many_requests")] * (1 + used)
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == expected


async def test_codes_of_strangers_are_limited_per_user(api: httpx.AsyncClient, settings: Settings) -> None:
    """A stranger with the right password, at any number of addresses, gets twenty tries a day."""
    ana, _ = await operator_with_factor(api, "passenger")
    changes = settings.changed(
        port=free_port(),
        trusted_proxies=[ip_network("127.0.0.1")],
        rate_limit_sign_in_account="1000/minute",
    )
    async with (
        open_parts(changes) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as client,
    ):
        statuses: list[int] = []
        for number in range(21):
            client.headers["x-forwarded-for"] = f"192.0.2.{number}"
            statuses.append((await sign_in_with(client, ana, code="000000")).status_code)
    assert statuses == [401] * 20 + [429]


async def test_wrong_codes_lengthen_the_wait_like_passwords(api: httpx.AsyncClient) -> None:
    ana, _ = await operator_with_factor(api, "passenger")
    statuses = [(await sign_in_with(api, ana, code="000000")).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]


async def test_removed_factor_is_not_asked_for(api: httpx.AsyncClient, database: Database) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    assert (await api.post(FACTOR, headers=ana.headers)).json()["code"] == "second_factor_on"
    body = {"recovery_code": app.recovery_codes[0]}
    assert (await api.post(f"{FACTOR}/remove", headers=ana.headers, json=body)).status_code == 204
    assert (await sign_in_with(api, ana)).status_code == 200
    off = await api.post(f"{FACTOR}/remove", headers=ana.headers, json=body)
    assert (off.status_code, off.json()["code"]) == (409, "second_factor_off")
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM recovery_codes WHERE user_id = $1", ana.id) == 0
    actions = [action for _, action in await actions_on(database, ana)]
    assert actions[-2:] == ["second_factor_turned_on", "second_factor_removed"]


async def test_operator_removes_a_lost_factor(api: httpx.AsyncClient, database: Database) -> None:
    ana, _ = await operator_with_factor(api, "passenger")
    operator = Person("operator")
    path = f"/v1/users/{ana.id}/second-factor"
    assert (await api.delete(path, headers=operator.headers)).status_code == 204
    assert (await api.delete(path, headers=operator.headers)).status_code == 404
    assert (await sign_in_with(api, ana)).status_code == 200
    assert (operator.id, "second_factor_removed") in await actions_on(database, ana)


async def test_stale_beginning_is_refused_and_pruned(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().known_to(api)
    app = await begun(api, ana)
    async with database.transaction() as db:
        await db.execute(
            "UPDATE second_factors SET created_at = created_at - interval '61 minutes' WHERE user_id = $1",
            ana.id,
        )
    answer = await api.post(f"{FACTOR}/confirm", headers=ana.headers, json={"code": app.code()})
    assert (answer.status_code, answer.json()["code"]) == (409, "second_factor_off")
    while await database.run(prune_begun_factors):
        pass
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM second_factors WHERE user_id = $1", ana.id) == 0


async def test_export_has_the_factor_and_erasure_deletes_it(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana, app = await operator_with_factor(api, "passenger")
    export = await api.get("/v1/me/export", headers=ana.headers)
    kept = export.json()["sections"]["people"]["second_factor"]
    assert kept["confirmed_at"] is not None
    assert kept["recovery_codes_left"] == 10
    assert app.secret not in export.text
    assert (await api.delete("/v1/me", headers=ana.headers)).status_code == 204
    async with database.connection() as db:
        for table in ("second_factors", "recovery_codes", "sign_in_addresses"):
            assert await db.fetchval(f"SELECT count(*) FROM {table} WHERE user_id = $1", ana.id) == 0


async def test_provider_asks_for_the_factor_itself(settings: Settings) -> None:
    """With an identity provider, there is no sign-in here that could ask for a code."""
    provided = settings.changed(jwks_url="https://id.example.com/keys")
    async with open_parts(provided) as parts:
        limiter = RateLimiter(parts.redis, key=b"a key")
        with pytest.raises(SecondFactorElsewhere):
            await _vault(second_factor_parts(provided, limiter))
