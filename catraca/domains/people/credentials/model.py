"""Sign-in and password links as values."""

from dataclasses import dataclass
from datetime import datetime

from catraca.domains.people.model import UserId

PASSWORD_MIN_CHARACTERS = 10
PASSWORD_MAX_CHARACTERS = 128


@dataclass(frozen=True, slots=True)
class Login:
    """A user's credentials, and the database time at which they were read."""

    user_id: UserId
    roles: tuple[str, ...]
    password_hash: str | None
    as_of: datetime


@dataclass(frozen=True, slots=True)
class PasswordLink:
    token: str
    expires_at: datetime
