"""Codes of an app (TOTP, RFC 6238), recovery codes, and the encryption of secrets."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor import InvalidToken
from cryptography.hazmat.primitives.twofactor.hotp import HOTP
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from catraca.platform.http.rate_limits import RateLimit

# What every authenticator app supports: SHA-1, six digits, 30 seconds.
DIGITS = 6
STEP_SECONDS = 30
# A phone's clock may be this many steps off.
DRIFT_STEPS = 1
SECRET_BYTES = 20
NONCE_BYTES = 12
RECOVERY_CODES = 10
# 16 characters of base32 are 80 random bits.
RECOVERY_BYTES = 10
ISSUER = "Catraca"
# Until then a begun factor must be confirmed.
BEGUN_LIFETIME = timedelta(hours=1)
# Attempts with a code: of unknown addresses at sign-in, after the right password; and of a signed-in caller.
CODES_OF_STRANGERS = RateLimit(20, 86_400)
CODES_OF_CALLER = RateLimit(10, 3600)


@dataclass(frozen=True, slots=True)
class Proof:
    """A code of the app, or a recovery code; the code counts if both are given."""

    code: str | None = field(default=None, repr=False)
    recovery_code: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        return self.code is not None or self.recovery_code is not None


@dataclass(frozen=True, slots=True)
class NewFactor:
    """Shown once: the secret for the app, as text and as the URI of a QR code."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    sealed_secret: bytes = field(repr=False)
    confirmed_at: datetime | None
    # Began too long ago to be confirmed.
    is_stale: bool
    recovery_codes_left: int
    # The database's time at which it was read.
    as_of: datetime


class FactorVault:
    """Encrypts secrets and digests recovery codes, with keys made of our secret."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"second factors\0" + secret.encode()).digest())
        self._digest_key = hashlib.sha256(b"recovery codes\0" + secret.encode()).digest()

    def seal(self, user_id: UUID, secret: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, user_id.bytes)

    def open(self, user_id: UUID, sealed: bytes) -> bytes | None:
        """None if it was sealed for another user, or with another secret of the instance."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], user_id.bytes)
        except InvalidTag:
            return None

    def recovery_digest(self, user_id: UUID, recovery_code: str) -> bytes:
        """The same for every spelling: capitals, spaces and dashes do not matter."""
        plain = "".join(filter(str.isalnum, recovery_code)).lower()
        return hmac.digest(self._digest_key, user_id.bytes + plain.encode(), "sha256")


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def factor_for_app(secret: bytes, *, account: str) -> NewFactor:
    totp = TOTP(secret, DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303 - apps support no other
    return NewFactor(secret=base64.b32encode(secret).decode(), uri=totp.get_provisioning_uri(account, ISSUER))


def matching_step(secret: bytes, code: str, *, at: datetime) -> int | None:
    """The time step whose code this is, among those near `at`; None if it is none of them."""
    hotp = HOTP(secret, DIGITS, SHA1())  # noqa: S303
    now_step = int(at.timestamp()) // STEP_SECONDS
    for step in range(now_step - DRIFT_STEPS, now_step + DRIFT_STEPS + 1):
        try:
            hotp.verify(code.encode(), step)
        except InvalidToken:
            continue
        return step
    return None


def new_recovery_code() -> str:
    """As `abcd-efgh-2345-7xyz`."""
    plain = base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower()
    return "-".join(plain[start : start + 4] for start in range(0, len(plain), 4))
