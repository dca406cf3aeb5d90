"""Sign-ups as values: message bodies, ids and tokens."""

import base64
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.onboarding.model import BadSignUp, Seal, SignUp, encode_sign_up, read_sign_up
from catraca.domains.onboarding.service import make_sign_up
from catraca.platform.lines import Malformed, clean_email, clean_name, fold_email

SEAL = Seal("one secret, long enough to seal with")
OTHER_SEAL = Seal("another secret, just as long as that one")
KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
# Names that the API accepts.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
EMAILS = st.from_regex(r"[a-zA-Zäßİ0-9.+]{1,20}@[a-z]{1,9}\.[a-z]{2,3}", fullmatch=True)
REQUESTS = st.tuples(st.uuids(), NAMES, EMAILS)


def sealed(request: tuple[UUID, str, str], seal: Seal = SEAL) -> SignUp:
    sign_up_id, name, email = request
    request_id = seal.request_id(sign_up_id, name=name, email=email)
    return SignUp(id=sign_up_id, name=name, email=email, language="en", request_id=request_id)


def identity_of(request: tuple[UUID, str, str]) -> tuple[UUID, str, str]:
    return request[0], request[1], fold_email(request[2])


@given(REQUESTS, REQUESTS)
def test_different_requests_have_different_ids_and_tokens(
    one: tuple[UUID, str, str], other: tuple[UUID, str, str]
) -> None:
    is_same = identity_of(one) == identity_of(other)
    assert (sealed(one).request_id == sealed(other).request_id) == is_same
    assert (SEAL.status_token(sealed(one)) == SEAL.status_token(sealed(other))) == is_same


@given(st.uuids(), NAMES, st.integers(0, 20))
def test_fields_of_a_request_are_not_interchangeable(sign_up_id: UUID, text: str, cut: int) -> None:
    one = SEAL.request_id(sign_up_id, name=text[:cut], email=text[cut:])
    other = SEAL.request_id(sign_up_id, name=text[: cut + 1], email=text[cut + 1 :])
    assert (one == other) == (cut >= len(text))


@given(REQUESTS)
def test_token_opens_its_own_sign_up(request: tuple[UUID, str, str]) -> None:
    sign_up = sealed(request)
    assert SEAL.open_token(sign_up.id, SEAL.status_token(sign_up)) == sign_up.request_id
    assert SEAL.open_token(uuid4(), SEAL.status_token(sign_up)) is None
    assert SEAL.open_token(sign_up.id, OTHER_SEAL.status_token(sealed(request, OTHER_SEAL))) is None


@given(REQUESTS, st.integers(0, 47), st.integers(1, 255))
def test_token_with_a_changed_bit_is_invalid(
    request: tuple[UUID, str, str], own_servers: int, change: int
) -> None:
    sign_up = sealed(request)
    raw = bytearray(base64.urlsafe_b64decode(SEAL.status_token(sign_up)))
    raw[own_servers] ^= change
    assert SEAL.open_token(sign_up.id, base64.urlsafe_b64encode(raw).decode()) is None


@given(st.uuids(), st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_other_texts_are_not_tokens(sign_up_id: UUID, text: str) -> None:
    assert SEAL.open_token(sign_up_id, text) is None


@given(
    REQUESTS, st.sampled_from(["{}=", "{}==", "{}====", "{}\n", " {}", "{}AAAA", "{}A", "={}", "\ud800{}"])
)
def test_token_with_extra_characters_is_invalid(request: tuple[UUID, str, str], around: str) -> None:
    sign_up = sealed(request)
    assert SEAL.open_token(sign_up.id, around.format(SEAL.status_token(sign_up))) is None


@given(KEYS, KEYS)
def test_each_key_has_its_own_id(one: str, other: str) -> None:
    assert (SEAL.id_for(one) == SEAL.id_for(other)) == (one == other)
    assert SEAL.id_for(one) != OTHER_SEAL.id_for(one)
    assert SEAL.id_for(one).version == 4


@given(st.uuids(), TEXTS, EMAILS, st.sampled_from(["pt-BR", "en"]), KEYS | st.none())
def test_accepted_sign_up_is_read_unchanged_from_the_queue(
    request_id: UUID, name: str, email: str, language: str, key: str | None
) -> None:
    try:
        name, email = clean_name(name), clean_email(email)
    except Malformed:
        return
    made = make_sign_up(SEAL, name=name, email=email, language=language, idempotency_key=key)  # type: ignore[arg-type]
    assert read_sign_up(encode_sign_up(made), request_id=made.request_id) == made
    assert read_sign_up(encode_sign_up(made), request_id=request_id).request_id == request_id


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        "id": st.uuids().map(str) | JSON_VALUES,
        "name": TEXTS | JSON_VALUES,
        "email": EMAILS | JSON_VALUES,
        "language": st.sampled_from(["pt-BR", "en", "fr"]) | JSON_VALUES,
        "more": JSON_VALUES,
    },
).map(msgspec.json.encode)


@given(st.binary(max_size=300) | JSON_VALUES.map(msgspec.json.encode) | ALMOST)
def test_every_body_is_a_sign_up_or_refused(body: bytes) -> None:
    try:
        read = read_sign_up(body, request_id=uuid4())
    except BadSignUp:
        return
    assert clean_name(read.name) == read.name
    assert clean_email(read.email) == read.email


ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed_json"),
        (b"\xff\xfe", "malformed_json"),
        (b"{", "malformed_json"),
        (b'{"id": "' + ID.encode() + b'", "name": "\xff", "email": "a@b.cd"}', "malformed_json"),
        (b'{"name": "\\ud800", "email": "a@b.cd"}', "malformed_json"),
        (b'{"more": ' + b"[" * 8000 + b"]" * 8000, "malformed_json"),
        (b"[]", "wrong_shape"),
        (b"null", "wrong_shape"),
        (b'{"name": "Ana", "email": "a@b.cd"}', "wrong_shape"),
        (b'{"id": "7", "name": "Ana", "email": "a@b.cd"}', "wrong_shape"),
        (b'{"id": "' + ID.encode() + b'", "name": "Ana"}', "wrong_shape"),
        (b'{"id": "' + ID.encode() + b'", "name": 7, "email": "a@b.cd"}', "wrong_shape"),
        (
            b'{"id": "' + ID.encode() + b'", "name": "Ana", "email": "a@b.cd", "language": "fr"}',
            "wrong_shape",
        ),
        (b'{"id": "' + ID.encode() + b'", "name": " ", "email": "a@b.cd"}', "text_blank"),
        (b'{"id": "' + ID.encode() + b'", "name": "A\\u0000", "email": "a@b.cd"}', "text_unprintable"),
        (
            b'{"id": "' + ID.encode() + b'", "name": "' + b"a" * 121 + b'", "email": "a@b.cd"}',
            "text_too_long",
        ),
        (b'{"id": "' + ID.encode() + b'", "name": "Ana", "email": "ana"}', "email_malformed"),
        (b'{"name": "' + b"a" * 16 * 1024 + b'"}', "body_too_large"),
    ],
)
def test_bad_sign_up_has_a_code(body: bytes, code: str) -> None:
    with pytest.raises(BadSignUp) as bad:
        read_sign_up(body, request_id=uuid4())
    assert bad.value.code == code


def test_unknown_fields_are_ignored() -> None:
    body = {"id": ID, "name": " Joa\u0303o", "email": "joao@example.com", "phone": "+5571987654321"}
    read = read_sign_up(msgspec.json.encode(body), request_id=UUID(ID))
    assert (read.id, read.name, read.language) == (UUID(ID), "João", "pt-BR")
