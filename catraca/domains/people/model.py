"""People as values: how their fields are written, and what a change does to a driver's approval."""

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, LiteralString, NewType, TypedDict
from uuid import UUID

from catraca.platform.texts import DEFAULT_LANGUAGE, Language

UserId = NewType("UserId", UUID)
Role = Literal["passenger", "driver", "worker", "operator", "service"]
Approval = Literal["pending", "approved", "refused", "suspended"]
Verdict = Literal["approved", "refused", "suspended"]
ApprovalRule = Literal["automatic", "required"]
"""Whether an operator must approve a driver before the first ride."""

NAME_MAX_CHARACTERS = 120
VEHICLE_MAX_CHARACTERS = 80
REASON_MAX_CHARACTERS = 300
ADDRESS_MAX_CHARACTERS = 300
EMAIL_MAX_CHARACTERS = 254
PASSWORD_MIN_CHARACTERS = 10
PASSWORD_MAX_CHARACTERS = 128

# Left out are control characters, line breaks and the marks that turn the reading direction around: each can
# make a name look like something else on another's screen. One character at least is not a space.
_LEFT_OUT = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
LINE_PATTERN = rf"^[^{_LEFT_OUT}]*[^\s{_LEFT_OUT}][^{_LEFT_OUT}]*$"
# Sane, not exhaustive: only a delivered message proves an address.
EMAIL_PATTERN = (
    r"^[^\s@<>()\[\],;:\\\x22\u0000-\u001f\u007f]{1,64}"
    r"@([^\W_]([\w-]{0,61}[^\W_])?\.)+[^\W_]([\w-]{0,61}[^\W_])?$"
)
PHONE_PATTERN = r"^\+[1-9][0-9]{6,14}$"
# ABC1D23 and ABC1234 are Brazil's; other countries' fit the same frame.
PLATE_PATTERN = r"^[A-Za-z0-9]([ .-]?[A-Za-z0-9]){3,9}$"


class Malformed(ValueError):
    """A text that a field cannot take; the code says why, and `texts` has the words for it."""

    def __init__(self, code: LiteralString) -> None:
        super().__init__(code)
        self.code: LiteralString = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None
    approval: Approval
    approval_reason: str | None = None
    approval_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: UserId
    roles: tuple[str, ...]
    name: str | None
    email: str | None
    phone: str | None
    language: Language
    created_at: datetime
    erased_at: datetime | None = None
    has_password: bool = False
    driver: Driver | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPerson:
    """Someone who is put in rather than met: by signing up, or one of the demo city's people."""

    id: UserId
    role: Role
    name: str
    email: str
    vehicle: str | None = None
    plate: str | None = None
    language: Language = DEFAULT_LANGUAGE


@dataclass(frozen=True, slots=True)
class Standing:
    """What each request asks about its caller."""

    tokens_valid_after: datetime | None
    erased: bool
    drives: bool


@dataclass(frozen=True, slots=True)
class Login:
    """What signing in needs to know, and the database's time at which it was so."""

    user_id: UserId
    roles: tuple[str, ...]
    password_hash: str | None
    as_of: datetime


class UserChange(TypedDict, total=False):
    """Only the fields that change; None clears."""

    name: str
    email: str | None
    phone: str | None
    language: Language


class DriverChange(TypedDict, total=False):
    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None


def first_approval(rule: ApprovalRule) -> Approval:
    return "pending" if rule == "required" else "approved"


def changed_driver(driver: Driver, change: DriverChange, *, rule: ApprovalRule) -> Driver:
    """The driver after the change. An approval was for one car: with another it must be given again."""
    changed = replace(driver, **change)
    same_car = (changed.vehicle, changed.plate) == (driver.vehicle, driver.plate)
    if same_car or rule == "automatic" or driver.approval != "approved":
        return changed
    return replace(changed, approval="pending", approval_reason=None)


def clean_line(text: str, *, max_characters: int) -> str:
    """One line of visible text, composed (NFC) and trimmed."""
    line = unicodedata.normalize("NFC", text).strip()
    if len(line) > max_characters:
        raise Malformed("text_too_long")
    if all(unicodedata.category(character) in ("Cf", "Zs") for character in line):
        raise Malformed("text_blank")
    if not re.fullmatch(LINE_PATTERN, line):
        raise Malformed("text_unprintable")
    return line


def clean_name(text: str) -> str:
    return clean_line(text, max_characters=NAME_MAX_CHARACTERS)


def clean_email(text: str) -> str:
    """The address as its owner writes it, composed (NFC)."""
    email = unicodedata.normalize("NFC", text)
    # Folding may lengthen; the folded form is what the database indexes.
    if max(len(email), len(fold_email(email))) > EMAIL_MAX_CHARACTERS:
        raise Malformed("text_too_long")
    if _has_invisible(email) or not re.fullmatch(EMAIL_PATTERN, email):
        raise Malformed("email_malformed")
    return email


def _has_invisible(text: str) -> bool:
    if text.isascii():  # looking at each character costs more than all the rest
        return not text.isprintable()
    return any(unicodedata.category(character).startswith("C") for character in text)


def fold_email(email: str) -> str:
    """The form in which two spellings of one address are equal (Unicode's NFKC and case folding)."""
    if email.isascii():
        return email.lower().strip()  # the same, in a tenth of the time
    folded = unicodedata.normalize("NFD", email).casefold()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", folded).casefold()).strip()


def clean_plate(text: str) -> str:
    """Letters and digits only, in capitals."""
    if not re.fullmatch(PLATE_PATTERN, text):
        raise Malformed("plate_malformed")
    return re.sub(r"[ .-]", "", text).upper()


def clean_phone(text: str) -> str:
    if not re.fullmatch(PHONE_PATTERN, text):
        raise Malformed("phone_malformed")
    return text
