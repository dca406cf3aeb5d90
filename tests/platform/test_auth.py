"""Tokens: valid ones, refused ones, and revocation."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.platform import auth
from catraca.platform.auth import (
    Authenticator,
    Principal,
    SharedSecret,
    TokenRules,
    TokenVerifier,
    sign_token,
)
from catraca.platform.database import Database
from catraca.platform.errors import DatabaseUnavailable, TokenExpired, TokenInvalid, TokenRevoked
from catraca.platform.http.health import Health
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.conftest import SECRET, bearer
from tests.platform.identity_provider import RSA
from tests.servers import until

SUBJECT = uuid4()


def now() -> float:
    return datetime.now(UTC).timestamp()


def claims(**changes: Any) -> dict[str, Any]:
    """Valid claims with changes; `...` removes a claim."""
    good = {
        "sub": str(SUBJECT),
        "roles": ["driver"],
        "iss": "catraca",
        "aud": "catraca",
        "iat": now(),
        "exp": int(now()) + 600,
    }
    return {name: value for name, value in (good | changes).items() if value is not ...}


def signed(payload: dict[str, Any], *, secret: Any = SECRET, algorithm: str = "HS256", **headers: Any) -> str:
    return jwt.encode(payload, secret, algorithm=algorithm, headers={"typ": "at+jwt"} | headers)


def by_hand(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"") -> str:
    """A token that no library would write."""
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def verifier(**rules: str) -> TokenVerifier:
    return TokenVerifier(SharedSecret(SECRET), TokenRules(**rules))


async def test_valid_token_has_its_principal() -> None:
    issued_at = now()
    principal = await verifier().verify(
        signed(claims(iat=issued_at, roles=["driver", "operator", "king", 7]))
    )
    assert principal.id == SUBJECT
    assert principal.roles == {"driver", "operator"}, "roles we do not know give nothing"
    assert principal.issued_at.timestamp() == pytest.approx(issued_at, abs=1e-5)


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "JWT", "application/at+jwt"])
async def test_token_types_are_accepted_in_any_case(typ: str) -> None:
    assert (await verifier().verify(signed(claims(), typ=typ))).id == SUBJECT


BAD: dict[str, Callable[[], str]] = {
    "algorithm none": lambda: jwt.encode(claims(), None, algorithm="none", headers={"typ": "at+jwt"}),
    "algorithm None": lambda: by_hand({"alg": "None", "typ": "at+jwt"}, claims()),
    "no algorithm": lambda: by_hand({"typ": "at+jwt"}, claims()),
    "no signature": lambda: signed(claims()).rpartition(".")[0] + ".",
    "two parts": lambda: signed(claims()).rpartition(".")[0],
    "another's secret": lambda: signed(claims(), secret="another secret, also long enough to sign"),
    "a stronger but other algorithm": lambda: signed(claims(), secret=SECRET * 2, algorithm="HS512"),
    "signed with an RSA key": lambda: signed(claims(), secret=RSA.private, algorithm="RS256"),
    "payload swapped": lambda: _swapped(),
    "wrong audience": lambda: signed(claims(aud="another")),
    "no audience": lambda: signed(claims(aud=...)),
    "audience of the wrong type": lambda: signed(claims(aud={"catraca": True})),
    "wrong issuer": lambda: signed(claims(iss="another")),
    "no issuer": lambda: signed(claims(iss=...)),
    "no type": lambda: signed(claims(), typ=None),
    "another type": lambda: signed(claims(), typ="id+jwt"),
    "type of the wrong type": lambda: by_hand({"alg": "HS256", "typ": ["jwt"]}, claims()),
    "not valid yet": lambda: signed(claims(nbf=now() + 60)),
    "issued in the future": lambda: signed(claims(iat=now() + 60)),
    "no subject": lambda: signed(claims(sub=...)),
    "subject of null": lambda: signed(claims(sub=None)),
    "subject that is no UUID": lambda: signed(claims(sub="maria")),
    "no end": lambda: signed(claims(exp=...)),
    "no beginning": lambda: signed(claims(iat=...)),
    "end that is a text": lambda: signed(claims(exp=str(int(now()) + 600))),
    "beginning that is true": lambda: signed(claims(iat=True)),
    "beginning before 1970": lambda: signed(claims(iat=-62135596800)),
    "end beyond the calendar": lambda: signed(claims(exp=1e300)),
    "end without end": lambda: signed(claims(exp=float("inf"))),
    "beginning that is no number": lambda: signed(claims(iat=float("nan"))),
    "no roles": lambda: signed(claims(roles=...)),
    "roles that are a text": lambda: signed(claims(roles="operator")),
    "roles that are a map": lambda: signed(claims(roles={"operator": True})),
    "a critical extension": lambda: by_hand_signed({"crit": ["b64"], "b64": True}),
    "an unknown critical extension": lambda: by_hand_signed({"crit": ["exp"]}),
    "too long": lambda: signed(claims(padding="x" * auth.MAX_TOKEN_CHARACTERS)),
    "garbage": lambda: "not.a.token",
    "nothing": lambda: "",
    "dots": lambda: "..",
    "many dots": lambda: signed(claims()) + ".x",
    "not ASCII": lambda: signed(claims()) + "é",
    "half a surrogate pair": lambda: signed(claims()) + "\ud800",
    "a header that is a list": lambda: base64.urlsafe_b64encode(b"[1]").decode().rstrip("=") + ".e30.eA",
    "deep nesting": lambda: (
        signed({"sub": "x"}).split(".")[0]
        + "."
        + base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=")
        + ".eA"
    ),
}


def _swapped() -> str:
    head, _, signature = signed(claims()).split(".")
    other = signed(claims(roles=["operator"])).split(".")[1]
    return f"{head}.{other}.{signature}"


def by_hand_signed(extra: dict[str, Any]) -> str:
    unsigned = by_hand({"alg": "HS256", "typ": "at+jwt"} | extra, claims()).rpartition(".")[0]
    signature = jwt.get_algorithm_by_name("HS256").sign(unsigned.encode(), SECRET.encode())
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("fault", BAD)
async def test_token_with_a_fault_is_refused(fault: str) -> None:
    check = verifier()
    with pytest.raises(TokenInvalid):
        await check.verify(BAD[fault]())
    assert not check._good, "nothing is remembered of a stranger"


def test_hand_made_token_without_a_fault_is_valid() -> None:
    assert asyncio.run(verifier().verify(by_hand_signed({}))).id == SUBJECT


async def test_keys_and_urls_inside_a_token_are_ignored() -> None:
    """`kid`, `jku`, `x5u` and `jwk` would let an attacker choose the key."""
    headers = {
        "kid": "../../etc/passwd",
        "jku": "http://127.0.0.1:9/keys",
        "x5u": "http://127.0.0.1:9/certificate",
        "jwk": {"kty": "oct", "k": "c3RyYW5nZXI"},
    }
    assert (await verifier().verify(signed(claims(), **headers))).id == SUBJECT
    with pytest.raises(TokenInvalid):
        await verifier().verify(signed(claims(), secret="stranger" * 8, **headers))


async def test_expired_token_is_refused_even_if_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenExpired):
        await verifier().verify(signed(claims(iat=now() - 9, exp=now() - 1)))
    with pytest.raises(TokenExpired):
        await verifier().verify(signed(claims(iat=now() - 90, exp=now() - 60)))
    check, token = verifier(), signed(claims())
    await check.verify(token)
    monkeypatch.setattr(auth, "now", lambda: datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(TokenExpired):
        await check.verify(token)


async def test_signers_clock_may_be_slightly_ahead() -> None:
    assert (await verifier().verify(signed(claims(iat=now() + 2, nbf=int(now()) + 2)))).id == SUBJECT


@pytest.mark.parametrize("claim", ["roles", "realm_access.roles", "https://example.org/roles"])
async def test_own_tokens_have_roles_in_the_configured_claim(claim: str) -> None:
    rules = TokenRules(roles_claim=claim)
    token = sign_token(SECRET, subject=SUBJECT, roles=["driver"], lifetime=timedelta(hours=1), rules=rules)
    assert (await TokenVerifier(SharedSecret(SECRET), rules).verify(token)).roles == {"driver"}


async def test_roles_may_be_nested_in_the_token() -> None:
    deep = signed(claims(roles=..., realm_access={"roles": ["operator"]}))
    assert (await verifier(roles_claim="realm_access.roles").verify(deep)).has("operator")
    for broken in ({"realm_access": ["roles"]}, {"realm_access": {"roles": "operator"}}, {}):
        with pytest.raises(TokenInvalid):
            await verifier(roles_claim="realm_access.roles").verify(signed(claims(roles=..., **broken)))


@given(st.text(max_size=200) | st.from_regex(r"\A[\w-]{0,80}\.[\w-]{0,80}\.[\w-]{0,80}\Z"))
def test_arbitrary_text_is_no_token(text: str) -> None:
    with pytest.raises(TokenInvalid):
        asyncio.run(verifier().verify(text))


async def test_cache_of_tokens_is_bounded_and_has_no_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "TOKENS_REMEMBERED", 20)
    check = verifier()
    tokens = [sign_token(SECRET, subject=uuid4(), roles=[], lifetime=timedelta(hours=1)) for _ in range(50)]
    for token in tokens:
        await check.verify(token)
    assert len(check._good) == 20
    assert not [token for token in tokens if token in repr(check._good)]


async def test_cached_token_is_verified_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a withdrawn key would work until the token expires."""
    check, token = verifier(), signed(claims())
    await check.verify(token)
    check._keys = SharedSecret("the secret has changed since, and is long enough")
    assert (await check.verify(token)).id == SUBJECT
    later = auth.monotonic_seconds() + auth.REMEMBERED_SECONDS
    monkeypatch.setattr(auth, "monotonic_seconds", lambda: later)
    with pytest.raises(TokenInvalid):
        await check.verify(token)


def authenticator(valid_after: dict[UUID, datetime | None], **options: Any) -> Authenticator:
    async def tokens_valid_after(principal: Principal) -> datetime | None:
        return valid_after.get(principal.id)

    return Authenticator(verifier(), tokens_valid_after, **options)


async def test_revocation_compares_fractions_of_a_second() -> None:
    moment = datetime.now(UTC)
    client = authenticator({SUBJECT: moment})

    def issued(milliseconds: int) -> str:
        at = moment + timedelta(milliseconds=milliseconds)
        return sign_token(SECRET, subject=SUBJECT, roles=[], lifetime=timedelta(hours=1), issued_at=at)

    assert (await client.authenticate(issued(1))).id == SUBJECT
    assert (await client.authenticate(issued(0))).id == SUBJECT
    with pytest.raises(TokenRevoked):
        await client.authenticate(issued(-1))


async def test_erased_person_is_refused_for_ever() -> None:
    client = authenticator({SUBJECT: datetime.max.replace(tzinfo=UTC)})
    with pytest.raises(TokenRevoked):
        await client.authenticate(signed(claims()))


async def test_cache_of_standings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "TOKENS_REMEMBERED", 5)
    client = authenticator({}, standing_seconds=60)
    for _ in range(20):
        await client.authenticate(signed(claims(sub=str(uuid4()))))
    assert len(client._standings) == 5


async def test_revoked_token_is_refused_and_a_new_one_works(
    api: httpx.AsyncClient, database: Database
) -> None:
    person = uuid4()
    old = bearer("passenger", person)
    assert (await api.get("/v1/me", headers=old)).status_code == 200
    async with database.connection() as db:
        await db.execute("UPDATE users SET tokens_valid_after = clock_timestamp() WHERE id = $1", person)

    async def refused() -> bool:
        answer = await api.get("/v1/me", headers=old)
        return answer.status_code == 401 and answer.json()["code"] == "token_revoked"

    await until(refused, seconds=5)
    assert (await api.get("/v1/me", headers=bearer("passenger", person))).status_code == 200


async def test_fifty_concurrent_first_requests_create_one_person(
    api: httpx.AsyncClient, database: Database
) -> None:
    person = uuid4()
    headers = bearer("driver", person)
    answers = await asyncio.gather(*(api.get("/v1/me", headers=headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM users WHERE id = $1", person) == 1


async def test_database_outage_is_not_401() -> None:
    async def away(_: Principal) -> datetime | None:
        raise DatabaseUnavailable

    with pytest.raises(DatabaseUnavailable):
        await Authenticator(verifier(), away).authenticate(signed(claims()))


async def test_database_outage_is_503_over_http_with_a_valid_token(parts: Parts) -> None:
    away = await Database.open(
        f"postgresql://catraca@/catraca?host={parts.settings.process.state_dir}/nowhere"
    )
    app = build_app(replace(parts, database=away), Health())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.get("/v1/me", headers=bearer())
    await away.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert "retry-after" in answer.headers


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer  {}"])
async def test_authorization_header_variants_are_accepted(api: httpx.AsyncClient, form: str) -> None:
    token = bearer()["authorization"].removeprefix("Bearer ")
    assert (await api.get("/v1/me", headers={"authorization": form.format(token)})).status_code == 200


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (["Bearer"], "token_invalid"),
        (["Bearer {} {}"], "token_invalid"),
        (["Basic {}"], "unauthenticated"),
        (["{}"], "unauthenticated"),
        (["Bearer {}", "Bearer {}"], "token_invalid"),
        (["Basic eDp5", "Bearer {}"], "token_invalid"),
    ],
)
async def test_other_authorization_headers_are_refused(
    api: httpx.AsyncClient, values: list[str], code: str
) -> None:
    token = bearer()["authorization"].removeprefix("Bearer ")
    headers = [("authorization", value.format(token, token)) for value in values]
    answer = await api.get("/v1/me", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["www-authenticate"] == "Bearer"
