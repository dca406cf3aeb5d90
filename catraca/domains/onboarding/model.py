"""Sign-ups as values: how one is read from a message, and the keys by which it is known again."""

import base64
import csv
import hashlib
import hmac
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

import msgspec

from catraca.domains import people
from catraca.platform.lines import Malformed, clean_email, clean_name, fold_email
from catraca.platform.mail import Letter
from catraca.platform.texts import Language, text

Rejection = Literal["email_taken", "id_taken", "discarded"]
Reason = Rejection | Literal["key_reused"]
FileKind = Literal["jsonl", "csv"]
# What the columns of a CSV file may be called.
HEADINGS = (("name", "nome"), ("email", "e-mail"))
# Far beyond what a name and an address take.
BODY_MAX_BYTES = 16 * 1024
REQUEST_ID_BYTES = 16


class SignUpBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What travels in the queue."""

    id: UUID
    name: str
    email: str
    language: Language = "pt-BR"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUp:
    id: UUID
    name: str
    email: str
    language: Language
    # Which request it was, and the id of its message: the same sign-up's id with another of these is another
    # request under a reused key. An operator may mend what a message says; it stays the same request.
    request_id: UUID


@dataclass(frozen=True, slots=True)
class Status:
    status: Literal["queued", "created", "rejected"]
    reason: Reason | None = None


class BadSignUp(ValueError):
    """Not a sign-up as we take it, and no retry will change that; the code says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class BadHeading(BadSignUp):
    """The first line of a CSV file names no columns for name and address: the rest cannot be read."""

    def __init__(self) -> None:
        super().__init__("malformed_heading")


class NameAndEmail(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file of sign-ups."""

    name: str
    email: str


class Seal:
    """Derives ids and tokens from our secret, so that nobody can guess them and nothing need be stored."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"sign-ups\0" + secret.encode()).digest()

    def id_for(self, idempotency_key: str) -> UUID:
        """The same for every repeat of a request."""
        return UUID(bytes=self._mac(b"id", idempotency_key.encode())[:16], version=4)

    def request_id(self, sign_up_id: UUID, *, name: str, email: str) -> UUID:
        """Of what was asked for. Keyed: it is kept beyond the name and the address it was made of."""
        asked_for = (sign_up_id.bytes, name.encode(), fold_email(email).encode())
        return UUID(bytes=self._mac(b"request", *asked_for)[:16], version=4)

    def status_token(self, sign_up: SignUp) -> str:
        return self._token(sign_up.id, sign_up.request_id)

    def open_token(self, sign_up_id: UUID, token: str) -> UUID | None:
        """The id of the request whose token this is; None for every other text."""
        try:
            given = token.encode("ascii")
            request_id = UUID(bytes=base64.urlsafe_b64decode(given)[:REQUEST_ID_BYTES])
        except ValueError:
            return None
        # As a text: one token has one spelling.
        expected = self._token(sign_up_id, request_id).encode()
        return request_id if hmac.compare_digest(given, expected) else None

    def password_token(self, message_id: UUID) -> str:
        """The one-use link's that goes with the news of a new person: the same however often it is told."""
        return base64.urlsafe_b64encode(self._mac(b"password", message_id.bytes)).decode()

    def _token(self, sign_up_id: UUID, request_id: UUID) -> str:
        sealed = self._mac(b"status", sign_up_id.bytes, request_id.bytes)
        return base64.urlsafe_b64encode(request_id.bytes + sealed).decode()

    def _mac(self, purpose: bytes, *parts: bytes) -> bytes:
        # Nothing of varying length here can hold a NUL, so no two lists of parts read alike.
        return hmac.digest(self._key, b"\0".join((purpose, *parts)), "sha256")


def read_sign_up(body: bytes, *, request_id: UUID) -> SignUp:
    """What a message with this id asks for, checked as at the door: not all of them came by it."""
    if len(body) > BODY_MAX_BYTES:
        raise BadSignUp("body_too_large")
    try:
        given = _decoder.decode(body)
        name, email = clean_name(given.name), clean_email(given.email)
    except msgspec.ValidationError as error:
        raise BadSignUp("wrong_shape") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSignUp("malformed_json") from error
    except Malformed as malformed:
        raise BadSignUp(malformed.code) from malformed
    return SignUp(id=given.id, name=name, email=email, language=given.language, request_id=request_id)


class FileReader:
    """Reads a file of sign-ups line by line; in CSV the first line says which column is which."""

    def __init__(self, kind: FileKind) -> None:
        self._kind = kind
        self._columns: tuple[int, int] | None = None
        self._delimiter = ","

    def read(self, line: bytes) -> NameAndEmail | None:
        """What the line asks for; None for one that asks for nothing. Raises `BadSignUp`."""
        if len(line) > BODY_MAX_BYTES:
            raise BadSignUp("body_too_large")
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise BadSignUp("not_utf8") from error
        if not text:
            return None
        given = _read_json(text) if self._kind == "jsonl" else self._read_csv(text)
        if given is None:
            return None
        try:
            return NameAndEmail(name=clean_name(given.name), email=clean_email(given.email))
        except Malformed as malformed:
            raise BadSignUp(malformed.code) from malformed

    def _read_csv(self, text: str) -> NameAndEmail | None:
        if self._columns is None:
            self._read_heading(text)
            return None
        try:
            cells = next(csv.reader([text], delimiter=self._delimiter, strict=True))
            return NameAndEmail(name=cells[self._columns[0]], email=cells[self._columns[1]].strip())
        except (csv.Error, IndexError) as error:
            raise BadSignUp("malformed_csv") from error

    def _read_heading(self, text: str) -> None:
        # Spreadsheets in Portuguese separate by semicolons.
        self._delimiter = ";" if text.count(";") > text.count(",") else ","
        heading = [cell.strip().lower() for cell in next(csv.reader([text], delimiter=self._delimiter))]
        found = [next((heading.index(n) for n in names if n in heading), -1) for names in HEADINGS]
        if -1 in found:
            raise BadHeading
        self._columns = (found[0], found[1])


def _read_json(text: str) -> NameAndEmail:
    try:
        return _line_decoder.decode(text)
    except msgspec.ValidationError as error:
        raise BadSignUp("wrong_shape") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadSignUp("malformed_json") from error


def welcome_letter(person: people.User, link: str, *, lifetime: timedelta) -> Letter:
    """Without the name: whoever signs somebody else up must not be able to put words into our letters."""
    assert person.email is not None
    data = {"link": link, "hours": math.ceil(lifetime / timedelta(hours=1))}
    return Letter(
        to=person.email,
        subject=text("letters.welcome_subject", person.language),
        text=text("letters.welcome_text", person.language, data),
    )


def encode_sign_up(sign_up: SignUp) -> bytes:
    return msgspec.json.encode(
        SignUpBody(id=sign_up.id, name=sign_up.name, email=sign_up.email, language=sign_up.language)
    )


_decoder = msgspec.json.Decoder(SignUpBody)
_line_decoder = msgspec.json.Decoder(NameAndEmail)
