"""Passwords: argon2 in threads of its own, so that a hash holds up neither the event loop nor memory."""

import asyncio
import secrets
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION  # pyright: ignore[reportUnknownVariableType]

from catraca.platform.errors import Busy

T = TypeVar("T")

# One hash takes 64 MiB and some tens of milliseconds; more at a time would only trade places.
HASHES_AT_A_TIME = 2
WAIT_SECONDS = 5.0


class Passwords:
    """Hashes and checks, a bounded number at a time; who waits too long is told to come again."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(HASHES_AT_A_TIME, thread_name_prefix="passwords")
        self._nobodys_hash = _hash_of_nobody(self._hasher)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(_normal(password)))

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether the password fits; without a hash it takes as long, and the answer is no."""

        def check() -> bool:
            try:
                self._hasher.verify(password_hash or self._nobodys_hash, _normal(password))
            except (VerificationError, InvalidHashError):
                return False
            return password_hash is not None

        return await self._in_thread(check)

    def is_outdated(self, password_hash: str) -> bool:
        """Whether the hash was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(password_hash)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise Busy from error


def _hash_of_nobody(hasher: PasswordHasher) -> str:
    """No password fits it, and trying one costs what it costs with any other; making one would too."""
    salt, digest = (
        b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2{hasher.type.name.lower()}$v={ARGON2_VERSION}${cost}${salt}${digest}"


def _normal(password: str) -> str:
    # Keyboards compose accents differently; the same password typed on another must still fit.
    return unicodedata.normalize("NFKC", password)
