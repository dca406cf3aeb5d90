"""Invalid input is a 4xx with a code, changes nothing, and is not quoted in the response or the log."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.platform.database import Database
from catraca.platform.errors import BodyMalformed
from catraca.platform.http.strict_json import MAX_DEPTH, parse_json
from catraca.settings import Settings
from tests.conftest import SECRET, bearer, free_port
from tests.servers import on_one_stack, until
from tests.support import forked

# In every place for private data; it must not appear in any response or log.
PRIVATE = "quixaba7431"
JSON = {"content-type": "application/json"}
NESTED = b'{"name":' * 5000 + b"1" + b"}" * 5000


def named(value: bytes) -> bytes:
    return b'{"phone": "%s", "name": %s}' % (PRIVATE.encode(), value)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"name=" + PRIVATE.encode(), "not_json"),
    "half an object": (named(b'"x"')[:-1], "not_json"),
    "two values": (named(b'"x"') + b"{}", "not_json"),
    "a comment": (named(b'"x"') + b"// hi", "not_json"),
    "a trailing comma": (b'{"name": "%s",}' % PRIVATE.encode(), "not_json"),
    "a raw NUL": (named(b'"a\0b"'), "not_json"),
    "a raw line feed in a text": (named(b'"a\nb"'), "not_json"),
    "a byte order mark": (b"\xef\xbb\xbf" + named(b'"x"'), "not_json"),
    "UTF-16": (named(b'"x"').decode().encode("utf-16"), "not_utf8"),
    "Latin-1": (named('"José"'.encode("latin-1")), "not_utf8"),
    "a surrogate in UTF-8": (named(b'"\xed\xa0\x80"'), "not_utf8"),
    "an escaped NUL": (named(b'"a\\u0000b"'), "nul_character"),
    "an escaped NUL in a key": (b'{"%s\\u0000": 1}' % PRIVATE.encode(), "nul_character"),
    "a lone surrogate": (named(b'"\\ud800"'), "lone_surrogate"),
    "a lone low surrogate": (named(b'"\\udc00x"'), "lone_surrogate"),
    "a lone surrogate in a key": (b'{"%s\\udfff": 1}' % PRIVATE.encode(), "lone_surrogate"),
    "a deep lone surrogate": (named(b'[[{"a": ["\\ud83d"]}]]'), "lone_surrogate"),
    "a key twice": (b'{"name": "%s", "name": "x"}' % PRIVATE.encode(), "duplicate_key"),
    "a key twice, once escaped": (b'{"name": "%s", "n\\u0061me": "x"}' % PRIVATE.encode(), "duplicate_key"),
    "a key twice further in": (named(b'{"a": {"b": 1, "b": 1}}'), "duplicate_key"),
    "NaN": (named(b"NaN"), "number_not_finite"),
    "Infinity": (named(b"-Infinity"), "number_not_finite"),
    "a number that overflows": (named(b"1e999"), "number_too_large"),
    "a number that overflows downwards": (named(b"-1E+0400"), "number_too_large"),
    "a float of many digits": (named(b"9" * 400 + b".5"), "number_too_large"),
    "5000 digits": (named(b"9" * 5000), "number_too_large"),
    "65 bits": (named(b"9223372036854775808"), "number_too_large"),
    "33 levels": (named(b"[" * 32 + b"]" * 32), "nested_too_deeply"),
    "33 levels of objects": (named(b'{"a":' * 32 + b"1" + b"}" * 32), "nested_too_deeply"),
    "5000 levels": (NESTED, "nested_too_deeply"),
}
UNSUPPORTED: dict[str, tuple[bytes, dict[str, str]]] = {
    "no type": (named(b'"x"'), {}),
    "text": (named(b'"x"'), {"content-type": "text/plain"}),
    "a form": (b"name=" + PRIVATE.encode(), {"content-type": "application/x-www-form-urlencoded"}),
    "XML": (b"<name/>", {"content-type": "application/xml"}),
    "another charset": (named(b'"x"'), {"content-type": "application/json; charset=latin-1"}),
    "gzip": (gzip.compress(named(b'"x"')), JSON | {"content-encoding": "gzip"}),
    "a type that only ends like JSON": (named(b'"x"'), {"content-type": "image/x+json"}),
    "two types": (named(b'"x"'), {"content-type": "text/plain, application/json"}),
}
INVALID: dict[str, tuple[bytes, list[tuple[str, str]]]] = {
    "an unknown field": (
        b'{"name": "x", "is_admin": "%s"}' % PRIVATE.encode(),
        [("body.is_admin", "extra_forbidden")],
    ),
    "a wrong type": (b'{"name": ["%s"]}' % PRIVATE.encode(), [("body.name", "string_type")]),
    "a number for a text": (b'{"name": 12}', [("body.name", "string_type")]),
    "a list for an object": (b'["%s"]' % PRIVATE.encode(), [("body", "model_attributes_type")]),
    "a text for an object": (b'"%s"' % PRIVATE.encode(), [("body", "model_attributes_type")]),
    "null": (b"null", [("body", "model_attributes_type")]),
    "nothing": (b"", [("body", "missing")]),
}


@pytest.fixture(scope="module")
async def logged_api(settings: Settings) -> AsyncIterator[tuple[httpx.AsyncClient, Path]]:
    """An API in its own process, and the file with its whole log."""
    port, log = free_port(), settings.process.state_dir / f"log-{uuid4()}"
    environment = os.environ | {
        "CATRACA_PORT": str(port),
        "CATRACA_DATABASE_URL": settings.servers.database_url or "",
        "CATRACA_REDIS_URL": settings.servers.redis_url or "",
        "CATRACA_STATE_DIR": str(settings.process.state_dir / "bodies"),
        "CATRACA_SECRET": SECRET,
        "CATRACA_LOG_LEVEL": "debug",
        "CATRACA_RATE_LIMIT_PRINCIPAL": settings.http.rate_limit_principal,
        "CATRACA_RATE_LIMIT_SIGN_IN_ADDRESS": settings.people.rate_limit_sign_in_address,
    }
    (settings.process.state_dir / "bodies").mkdir()
    process = forked.start(forked.CATRACA, "serve", "api", environment=environment, stdout=log, stderr=log)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

        async def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await until(ready)
        client.headers["accept-language"] = "en"
        yield client, log
    process.terminate()
    assert await asyncio.to_thread(process.wait, 20) == 0


@pytest.fixture
async def victim(logged_api: tuple[httpx.AsyncClient, Path], database: Database) -> AsyncIterator[UUID]:
    """A person whose record must not change, and whose data must not be in the log."""
    client, log = logged_api
    sub = uuid4()
    assert (
        await client.patch("/v1/me", json={"name": "Before"}, headers=bearer("driver", sub))
    ).status_code == 200
    before = await record(database, sub)
    yield sub
    assert await record(database, sub) == before
    said = log.read_text()
    assert '"event":"request"' in said
    assert PRIVATE not in said
    assert "request_failed" not in said


async def record(database: Database, sub: UUID) -> object:
    async with database.connection() as db:
        row = await db.fetchrow("SELECT * FROM users WHERE id = $1", sub)
    assert row is not None
    return dict(row)


@on_one_stack
@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_bodies_are_refused(
    name: str, logged_api: tuple[httpx.AsyncClient, Path], victim: UUID
) -> None:
    body, reason = MALFORMED[name]
    client, _ = logged_api
    for method, path in (("PATCH", "/v1/me"), ("POST", "/v1/auth/token")):
        headers = bearer("driver", victim) | JSON
        answer = await client.request(method, path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "body_malformed")
        assert answer.json()["reason"] == reason
        assert PRIVATE not in answer.text


@on_one_stack
@pytest.mark.parametrize("name", UNSUPPORTED)
async def test_other_media_types_are_refused(
    name: str, logged_api: tuple[httpx.AsyncClient, Path], victim: UUID
) -> None:
    body, headers = UNSUPPORTED[name]
    client, _ = logged_api
    for method, path in (("PATCH", "/v1/me"), ("POST", "/v1/auth/token")):
        answer = await client.request(method, path, content=body, headers=bearer("driver", victim) | headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "media_type_unsupported")


@on_one_stack
@pytest.mark.parametrize("name", INVALID)
async def test_bodies_of_another_shape_are_refused(
    name: str, logged_api: tuple[httpx.AsyncClient, Path], victim: UUID
) -> None:
    body, expected = INVALID[name]
    client, _ = logged_api
    answer = await client.patch("/v1/me", content=body, headers=bearer("driver", victim) | JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert [(error["where"], error["code"]) for error in answer.json()["errors"]] == expected
    assert PRIVATE not in answer.text


@on_one_stack
async def test_large_bodies_are_refused(logged_api: tuple[httpx.AsyncClient, Path], victim: UUID) -> None:
    client, _ = logged_api
    body = named(b'"' + b"a" * 70_000 + b'"')
    answer = await client.patch("/v1/me", content=body, headers=bearer("driver", victim) | JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


BAD_ADDRESSES = {
    f"/v1/users/{PRIVATE}": (422, "request_invalid"),
    "/v1/users/%00": (400, "url_invalid"),
    f"/v1/users?limit={PRIVATE}": (422, "request_invalid"),
    "/v1/users?limit=%00": (400, "url_invalid"),
    f"/v1/users?role={PRIVATE}": (422, "request_invalid"),
    "/v1/users?limit=" + "9" * 5000: (422, "request_invalid"),
    "/v1/users?limit=-1": (422, "request_invalid"),
    "/v1/users?after=%ff%fe": (422, "request_invalid"),
    "/v1/users?after=%ed%a0%80": (422, "request_invalid"),
    f"/v1/users?name={PRIVATE}&&&=": (422, "request_invalid"),
    f"/v1/{PRIVATE}": (404, "not_found"),
}


@pytest.mark.parametrize("address", BAD_ADDRESSES, ids=range(len(BAD_ADDRESSES)))
@on_one_stack
async def test_malformed_urls_are_refused(
    address: str, logged_api: tuple[httpx.AsyncClient, Path], victim: UUID
) -> None:
    client, _ = logged_api
    answer = await client.get(address, headers=bearer("operator", victim))
    status, code = BAD_ADDRESSES[address]
    assert (answer.status_code, answer.json().get("code")) == (status, code)
    assert PRIVATE not in answer.text


@on_one_stack
@pytest.mark.parametrize(
    "name", ["authorization", "accept-language", "idempotency-key", "x-request-id", "cookie"]
)
async def test_odd_headers_do_no_harm(
    name: str, logged_api: tuple[httpx.AsyncClient, Path], victim: UUID
) -> None:
    client, _ = logged_api
    for value in (b"", b"\xff\xfe", b"," * 500, " ".join([PRIVATE] * 100).encode(), "ü".encode() * 100):
        answer = await client.patch(
            "/v1/me", content=b"{}", headers=[*(bearer("driver", victim) | JSON).items(), (name, value)]
        )
        assert answer.status_code in (200, 400, 401)


@on_one_stack
async def test_field_errors_use_the_clients_language(api: httpx.AsyncClient) -> None:
    async def messages(language: str) -> list[str]:
        headers = bearer("operator") | JSON | {"accept-language": language}
        answer = await api.get("/v1/users?limit=0&after=x&role=king", headers=headers)
        body = await api.patch("/v1/me", content=b'{"x": 1}', headers=headers)
        return [error["message"] for error in answer.json()["errors"] + body.json()["errors"]]

    english, portuguese = await messages("en"), await messages("pt-BR")
    assert {"Must be at least 1.", "Send a UUID.", "This field is not known here."} <= set(english)
    assert {"Deve ser no mínimo 1.", "Envie um UUID.", "Este campo não é conhecido aqui."} <= set(portuguese)
    assert any(message.startswith("Must be one of: 'passenger', 'driver'") for message in english)
    malformed = await api.patch(
        "/v1/me", content=b"{", headers=bearer() | JSON | {"accept-language": "pt-BR"}
    )
    assert malformed.json()["detail"] == "O corpo não pôde ser lido: não é JSON no caractere 1."


def test_valid_bodies_are_read_unchanged() -> None:
    assert parse_json(b'{"a": [1, -2.5e3, "\\ud83d\\ude00", null, true]}') == {
        "a": [1, -2500.0, "😀", None, True]
    }
    assert parse_json(b"9223372036854775807") == 2**63 - 1
    assert parse_json(b"-1.5e+300") == -1.5e300
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert parse_json('"çãé"'.encode()) == "çãé"
    wide = b"[" + b",".join([b"[]"] * 1000) + b"]"
    assert len(parse_json(wide)) == 1000


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_parser_reads_or_refuses_any_bytes(body: bytes) -> None:
    with suppress(BodyMalformed):
        parse_json(body)
