"""An identity provider's keys: downloaded, rotated, withdrawn, unavailable."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from catraca.platform import jwks
from catraca.platform.auth import Authenticator, Principal, TokenRules, TokenVerifier
from catraca.platform.errors import IdentityProviderUnavailable, TokenInvalid, TokenRevoked
from catraca.platform.http.health import Health
from catraca.platform.jwks import ProviderKeys, fetch_keys
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.platform.identity_provider import RSA, Key, Provider, provider
from tests.platform.test_auth import claims, signed
from tests.servers import until

ECDSA = Key("ec", "ES256")
ED25519 = Key("ed", "EdDSA")
NEW = Key("new", "ES256")
UNKNOWN = Key("nobody-knows", "ES256")


def by(key: Key, **changes: Any) -> str:
    return signed(claims(**changes), secret=key.private, algorithm=key.algorithm, kid=key.id)


def verifier(url: str, **times: float) -> TokenVerifier:
    return TokenVerifier(ProviderKeys(url, **times), TokenRules())


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> "Moments":
    return Moments(monkeypatch)


class Moments:
    """The monotonic clock of the keys, moved by the test instead of waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        real = jwks.monotonic_seconds
        monkeypatch.setattr(jwks, "monotonic_seconds", lambda: real() + self._ahead)

    def pass_by(self, seconds: float) -> None:
        self._ahead += seconds


async def test_rsa_ec_and_ed_keys_are_downloaded_once() -> None:
    with provider(RSA, ECDSA, ED25519) as idp:
        check = verifier(idp.url)
        for key in (RSA, ECDSA, ED25519):
            for _ in range(3):
                assert (await check.verify(by(key))).has("driver")
        assert idp.asked == 1


async def test_hundred_concurrent_tokens_download_keys_once() -> None:
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        await asyncio.gather(*(check.verify(by(ECDSA, jti=str(n))) for n in range(100)))
        assert idp.asked == 1


async def test_published_keys_are_not_shared_secrets() -> None:
    """HS256 signed with a public key as the secret is a well-known attack."""
    public = RSA.private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with provider(RSA) as idp:
        idp.keys.append({"kty": "oct", "kid": "shared", "alg": "HS256", "k": "c2VjcmV0" * 8})
        check = verifier(idp.url)
        for kid, secret in (
            ("rsa", pem),
            ("rsa", json.dumps(RSA.published()).encode()),
            ("shared", b"secret" * 8),
        ):
            with pytest.raises(TokenInvalid):
                await check.verify(_hs256(secret, kid))


def _hs256(secret: bytes, kid: str) -> str:
    # PyJWT refuses to sign with a public key, so the test makes the signature itself.
    unsigned = jwt.encode(claims(), "x" * 32, headers={"typ": "at+jwt", "kid": kid}).rpartition(".")[0]
    hs256 = jwt.get_algorithm_by_name("HS256")
    signature = hs256.sign(unsigned.encode(), secret)
    return f"{unsigned}.{jwt.utils.base64url_encode(signature).decode()}"


def test_no_symmetric_algorithm_is_allowed() -> None:
    assert not [name for name in ProviderKeys.algorithms if name.startswith("HS") or name == "none"]


async def test_key_is_bound_to_its_algorithm() -> None:
    with provider(RSA) as idp:
        other = signed(claims(), secret=RSA.private, algorithm="PS256", kid="rsa")
        with pytest.raises(TokenInvalid):
            await verifier(idp.url).verify(other)


async def test_unsuitable_keys_are_ignored() -> None:
    weak, good = Key("weak", "RS256", bits=1024), Key("good", "ES256")
    with provider() as idp:
        idp.keys = [
            weak.published(),
            Key("for-encryption", "ES256").published(use="enc"),
            {key: value for key, value in Key("", "ES256").published().items() if key != "kid"},
            good.published(kid=7),
            {"kty": "EC", "kid": "broken", "crv": "P-256", "x": 1, "y": None},
            {"kty": "RSA", "kid": "broken-too", "n": "!", "e": "AQAB"},
            {"kid": "no-type"},
            {"kty": "oct", "kid": "shared", "alg": "HS256", "k": "c2VjcmV0" * 8},
            "not a key",
            good.published(),
            Key("good", "ES256").published(),
        ]
        keys = await asyncio.to_thread(fetch_keys, idp.url)
        assert list(keys) == ["good"]
        assert (await verifier(idp.url).verify(by(good))).has("driver"), "the first of a name counts"


@pytest.mark.parametrize(
    "kid", [None, "", "../../dev/null", "http://127.0.0.1:9/keys", "'; DROP TABLE users; --"]
)
async def test_key_id_is_only_a_name(kid: str | None) -> None:
    with provider(ECDSA) as idp:
        headers = {} if kid is None else {"kid": kid}
        token = signed(claims(), secret=ECDSA.private, algorithm="ES256", jku=idp.url, **headers)
        with pytest.raises(TokenInvalid):
            await verifier(idp.url).verify(token)


async def test_unknown_key_ids_do_not_cause_more_downloads(moments: Moments) -> None:
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        for number in range(200):
            with pytest.raises(TokenInvalid):
                await check.verify(
                    signed(claims(), secret=ECDSA.private, algorithm="ES256", kid=f"k{number}")
                )
        assert idp.asked == 1
        moments.pass_by(6)
        for number in range(200):
            with pytest.raises(TokenInvalid):
                await check.verify(
                    signed(claims(), secret=ECDSA.private, algorithm="ES256", kid=f"k{number}")
                )
        assert idp.asked == 2
        assert (await check.verify(by(ECDSA))).has("driver")


async def test_rotated_key_replaces_the_old_one(moments: Moments) -> None:
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        await check.verify(by(ECDSA))
        idp.keys = [NEW.published()]
        moments.pass_by(6)
        assert (await check.verify(by(NEW))).has("driver")
        with pytest.raises(TokenInvalid):
            await check.verify(by(ECDSA))


async def test_withdrawn_key_stops_working_without_new_keys(moments: Moments) -> None:
    with provider(ECDSA, NEW) as idp:
        check = verifier(idp.url)
        await check.verify(by(ECDSA))
        idp.keys = [NEW.published()]
        await check.verify(by(ECDSA, jti="2"))
        moments.pass_by(301)
        with pytest.raises(TokenInvalid):
            await check.verify(by(ECDSA, jti="3"))


AWAY = {
    "answers with an error": {"status": 500},
    "answers not found": {"status": 404},
    "answers no JSON": {"body": b"<html>"},
    "answers no key set": {"body": b"[]"},
    "answers keys that are no list": {"body": b'{"keys": {}}'},
    "answers too much": {"body": b'{"keys": [' + b" " * jwks.MAX_SET_BYTES + b"]}"},
    "answers too deep": {"body": b"[" * 200_000},
    "answers bytes that are no text": {"body": b"\xff\xfe\xfa"},
}


@pytest.mark.parametrize("how", AWAY)
async def test_known_keys_work_while_the_provider_is_away(moments: Moments, how: str) -> None:
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        await check.verify(by(ECDSA))
        for name, value in AWAY[how].items():
            setattr(idp, name, value)
        moments.pass_by(301)
        assert (await check.verify(by(ECDSA, jti="2"))).has("driver")
        with pytest.raises(IdentityProviderUnavailable):
            await check.verify(by(NEW))
        assert idp.asked == 2, "one failed attempt, not one a request"
        idp.status, idp.body, idp.keys = 200, None, [NEW.published()]
        moments.pass_by(6)
        assert (await check.verify(by(NEW))).has("driver")


async def test_unreachable_provider_is_503_from_the_first_token() -> None:
    with provider(ECDSA) as idp:
        pass  # its port is free now
    with pytest.raises(IdentityProviderUnavailable):
        await verifier(idp.url).verify(by(ECDSA))


async def test_silent_provider_blocks_neither_loop_nor_known_keys(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.3)
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        await check.verify(by(ECDSA))
        idp.silent = True
        moments.pass_by(6)
        waiting = asyncio.create_task(check.verify(by(NEW)))
        await until(lambda: idp.asked == 2)
        assert (await check.verify(by(ECDSA, jti="2"))).has("driver")
        assert not waiting.done(), "the known key did not wait for the fetch"
        moments.pass_by(-0.01)  # as if the wait ended early, which uvloop's timers do by a millisecond
        with pytest.raises(IdentityProviderUnavailable):
            await waiting


async def test_slow_download_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's timeout starts again with each byte; ours does not."""
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.3)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
        async with asyncio.timeout(20):
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(fetch_keys, url)


async def test_redirects_are_not_followed() -> None:
    with provider(NEW) as elsewhere, provider(ECDSA) as idp:
        idp.status, idp.headers = 302, {"location": elsewhere.url}
        with pytest.raises(IdentityProviderUnavailable):
            await verifier(idp.url).verify(by(NEW))
        assert elsewhere.asked == 0


async def test_known_keys_wait_once_for_a_silent_provider(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(ECDSA) as idp:
        check = verifier(idp.url)
        await check.verify(by(ECDSA))
        idp.silent = True
        moments.pass_by(301)
        monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.2)
        assert (await check.verify(by(ECDSA, jti="2"))).has("driver")
        monkeypatch.setattr(jwks, "FETCH_SECONDS", 600)
        await until(lambda: check._keys._fetching is None)
        moments.pass_by(6)
        async with asyncio.timeout(20):
            assert (await check.verify(by(ECDSA, jti="3"))).has("driver")
            await until(lambda: idp.asked == 3)
        idp.over.set()
        await until(lambda: check._keys._fetching is None)


async def test_only_http_urls_are_accepted() -> None:
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/keys", "data:,{}"):
        with pytest.raises(ValueError, match="https"):
            ProviderKeys(url)


async def test_revocation_covers_the_clock_margin() -> None:
    with provider(ECDSA) as idp:
        moment = datetime.now(UTC).replace(microsecond=500_000) - timedelta(seconds=60)

        async def valid_after(_: Principal) -> datetime | None:
            return moment

        client = Authenticator(verifier(idp.url), valid_after)
        for seconds in (-10, 0, 4):
            with pytest.raises(TokenRevoked):
                await client.authenticate(by(ECDSA, iat=int(moment.timestamp()) + seconds))
        assert (await client.authenticate(by(ECDSA, iat=int(moment.timestamp()) + 6))).has("driver")


async def test_unknown_key_is_401_and_provider_outage_503_over_http(parts: Parts) -> None:
    with provider(ECDSA) as idp:
        answers = await _ask_with(parts, idp, [by(ECDSA, sub=str(uuid4())), by(UNKNOWN), signed(claims())])
        assert [answer.status_code for answer in answers] == [200, 401, 401]
    (answer,) = await _ask_with(parts, idp, [by(ECDSA)])
    assert (answer.status_code, answer.json()["code"]) == (503, "identity_provider_unavailable")
    assert answer.headers["retry-after"] == "5"


async def _ask_with(parts: Parts, idp: Provider, tokens: list[str]) -> list[httpx.Response]:
    settings = parts.settings.changed(jwks_url=idp.url)
    app = build_app(replace(parts, settings=settings), Health())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return [await client.get("/v1/me", headers={"authorization": f"Bearer {token}"}) for token in tokens]
