"""A change of an e-mail address as a value, its code and its letters."""

import hashlib
import hmac
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from catraca.platform.mail import Letter
from catraca.platform.texts import Language, text

CHANGE_LIFETIME = timedelta(hours=24)
# A CHECK of the table has the same number.
TRIES = 5
CODE_DIGITS = 8

LetterKind = Literal["code", "notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailChange:
    id: UUID
    # The new address.
    email: str
    # False: expired, or the tries are used up.
    is_open: bool


class EmailCodes:
    """Derives the code of a change from our secret: it cannot be guessed and need not be stored."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"e-mail changes\0" + secret.encode()).digest()

    def of(self, change_id: UUID) -> str:
        number = int.from_bytes(hmac.digest(self._key, change_id.bytes, "sha256")[:8])
        return f"{number % 10**CODE_DIGITS:0{CODE_DIGITS}}"

    def matches(self, change_id: UUID, code: str) -> bool:
        return hmac.compare_digest(self.of(change_id).encode(), code.encode())


# Letters have no names: otherwise a user could put any text into our mail to a foreign address.


def code_letter(to: str, code: str, language: Language) -> Letter:
    hours = math.ceil(CHANGE_LIFETIME / timedelta(hours=1))
    return _letter("email_code", to, language, code=code, hours=hours)


def taken_letter(to: str, language: Language) -> Letter:
    """For the owner of an address that another user has asked for."""
    return _letter("email_taken", to, language)


def notice_letter(to: str, language: Language) -> Letter:
    """For the present address of a user who wants another."""
    return _letter("email_notice", to, language)


def _letter(name: str, to: str, language: Language, **data: object) -> Letter:
    return Letter(
        to=to,
        subject=text(f"letters.{name}_subject", language),
        text=text(f"letters.{name}_text", language, data),
    )
