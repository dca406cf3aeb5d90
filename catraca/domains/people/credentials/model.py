"""Sign-in and password links as values."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta

from catraca.domains.people.model import UserId
from catraca.platform.http.rate_limits import RateLimit
from catraca.platform.lines import fold_email

PASSWORD_MIN_CHARACTERS = 10
PASSWORD_MAX_CHARACTERS = 128

# Failed sign-ins of one account from one network address. Each limit allows a burst and then one attempt per
# step, so the wait grows with the number of failures: 12 seconds, 4 minutes, 36 minutes, and never more.
FAILURES_PER_PAIR = (RateLimit(5, 60), RateLimit(15, 3600), RateLimit(40, 86_400))
# How long, and how many, addresses of successful sign-ins are remembered.
ADDRESS_MEMORY = timedelta(days=90)
ADDRESSES_PER_USER = 20


@dataclass(frozen=True, slots=True)
class Login:
    """A user's credentials, and the database time at which they were read."""

    user_id: UserId
    roles: tuple[str, ...]
    password_hash: str | None
    as_of: datetime
    # How the user has signed in: values of the claim `amr` (RFC 8176).
    methods: tuple[str, ...] = ("pwd",)


@dataclass(frozen=True, slots=True)
class PasswordLink:
    token: str
    expires_at: datetime


class AddressMarks:
    """Digests of an account's network addresses, made with our secret: the addresses are not stored."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"sign-in addresses\0" + secret.encode()).digest()

    def of(self, email: str, address: str) -> bytes:
        return hmac.digest(self._key, f"{fold_email(email)}\0{address}".encode(), "sha256")
