"""Accounts as values: new users, profile changes, and what authentication needs to know."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

import msgspec

from catraca.domains.people.model import Role, UserId
from catraca.platform.lines import Malformed
from catraca.platform.texts import DEFAULT_LANGUAGE, Language

PHONE_PATTERN = r"^\+[1-9][0-9]{6,14}$"


class NewUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user who is inserted with name and e-mail: by sign-up, or for the demo."""

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

    def covers(self, roles: frozenset[str]) -> bool:
        """False if `ensure_user` has to add a driver profile for a token with these roles."""
        return self.drives or self.erased or "driver" not in roles


class UserChange(TypedDict, total=False):
    """Only the fields that change; None clears a field."""

    name: str
    email: str | None
    phone: str | None
    language: Language


def clean_phone(text: str) -> str:
    if not re.fullmatch(PHONE_PATTERN, text):
        raise Malformed("phone_malformed")
    return text
