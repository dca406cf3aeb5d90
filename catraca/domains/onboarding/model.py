"""Sign-ups as values: messages, lines of files, and the ids and tokens derived from a secret."""

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
# The accepted names of the columns of a CSV file.
HEADINGS = (("name", "nome"), ("email", "e-mail"))
# Much longer than any name and address.
BODY_MAX_BYTES = 16 * 1024
REQUEST_ID_BYTES = 16


class SignUpBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a message in the queue."""

    id: UUID
    name: str
    email: str
    language: Language = "pt-BR"


class SignUp(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    email: str
    language: Language
    # Also the id of the message. The same sign-up id with another request id is another request with a reused
    # key. If an operator edits the message, the request id stays.
    request_id: UUID


@dataclass(frozen=True, slots=True)
class Status:
    status: Literal["queued", "created", "rejected"]
    reason: Reason | None = None


class BadSignUp(ValueError):
    """Not a valid sign-up, which a retry cannot change; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class BadHeading(BadSignUp):
    """The first line of a CSV file does not name the columns of name and e-mail."""

    def __init__(self) -> None:
        super().__init__("malformed_heading")


class NameAndEmail(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file of sign-ups."""

    name: str
    email: str


class Seal:
    """Derives ids and tokens from our secret: they cannot be guessed and need not be stored."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"sign-ups\0" + secret.encode()).digest()

    def id_for(self, idempotency_key: str) -> UUID:
        """The same id for every repeat of a request."""
        return UUID(bytes=self._mac(b"id", idempotency_key.encode())[:16], version=4)

    def request_id(self, sign_up_id: UUID, *, name: str, email: str) -> UUID:
        """An id of the content. Keyed, because it is stored longer than the name and the address."""
        content = (sign_up_id.bytes, name.encode(), fold_email(email).encode())
        return UUID(bytes=self._mac(b"request", *content)[:16], version=4)

    def status_token(self, sign_up: SignUp) -> str:
        return self._token(sign_up.id, sign_up.request_id)

    def open_token(self, sign_up_id: UUID, token: str) -> UUID | None:
        """The id of the token's request; None if the token is not valid."""
        try:
            given = token.encode("ascii")
            request_id = UUID(bytes=base64.urlsafe_b64decode(given)[:REQUEST_ID_BYTES])
        except ValueError:
            return None
        # Compared as text, because base64 has several spellings of the same bytes.
        expected = self._token(sign_up_id, request_id).encode()
        return request_id if hmac.compare_digest(given, expected) else None

    def password_token(self, message_id: UUID) -> str:
        """The token of the password link in a welcome mail: the same for every delivery of the event."""
        return base64.urlsafe_b64encode(self._mac(b"password", message_id.bytes)).decode()

    def _token(self, sign_up_id: UUID, request_id: UUID) -> str:
        sealed = self._mac(b"status", sign_up_id.bytes, request_id.bytes)
        return base64.urlsafe_b64encode(request_id.bytes + sealed).decode()

    def _mac(self, purpose: bytes, *parts: bytes) -> bytes:
        # Parts of variable length cannot contain NUL, so different lists of parts give different input.
        return hmac.digest(self._key, b"\0".join((purpose, *parts)), "sha256")


def read_sign_up(body: bytes, *, request_id: UUID) -> SignUp:
    """The sign-up in a message body, checked like an HTTP request: messages may come from elsewhere."""
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
    """Reads a file of sign-ups line by line; the first line of CSV names the columns."""

    def __init__(self, kind: FileKind) -> None:
        self._kind = kind
        self._columns: tuple[int, int] | None = None
        self._delimiter = ","

    def read(self, line: bytes) -> NameAndEmail | None:
        """The sign-up of a line; None for empty lines and the heading. Raises `BadSignUp`."""
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
        # Portuguese spreadsheets use semicolons.
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


def welcome_letter(user: people.User, link: str, *, lifetime: timedelta) -> Letter:
    """Without the name: otherwise a sign-up for a foreign address could put any text into our mail."""
    assert user.email is not None
    data = {"link": link, "hours": math.ceil(lifetime / timedelta(hours=1))}
    return Letter(
        to=user.email,
        subject=text("letters.welcome_subject", user.language),
        text=text("letters.welcome_text", user.language, data),
    )


def encode_sign_up(sign_up: SignUp) -> bytes:
    return msgspec.json.encode(
        SignUpBody(id=sign_up.id, name=sign_up.name, email=sign_up.email, language=sign_up.language)
    )


_decoder = msgspec.json.Decoder(SignUpBody)
_line_decoder = msgspec.json.Decoder(NameAndEmail)
