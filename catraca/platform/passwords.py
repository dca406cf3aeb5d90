"""Passwords: argon2 in a few threads of its own, so that hashing blocks no event loop and fills no memory."""

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

# One hash takes 64 MiB and some tens of milliseconds of a core.
HASHES_AT_A_TIME = 2
WAIT_SECONDS = 5.0


class Passwords:
    """Hashes and verifies, a bounded number at a time. Too long a wait is refused as `Busy`."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(HASHES_AT_A_TIME, thread_name_prefix="passwords")
        self._dummy_hash = _dummy_hash(self._hasher)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(_normal(password)))

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """True if the password is right. Without a hash it takes as long, and returns False."""

        def check() -> bool:
            try:
                self._hasher.verify(password_hash or self._dummy_hash, _normal(password))
            except (VerificationError, InvalidHashError):
                return False
            return password_hash is not None

        return await self._in_thread(check)

    def is_outdated(self, password_hash: str) -> bool:
        """True if the hash was made with other parameters than the present ones."""
        return self._hasher.check_needs_rehash(password_hash)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise Busy from error


def _dummy_hash(hasher: PasswordHasher) -> str:
    """A hash that no password matches and that takes as long to verify. Random, since hashing is slow."""
    salt, digest = (
        b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2{hasher.type.name.lower()}$v={ARGON2_VERSION}${cost}${salt}${digest}"


def _normal(password: str) -> str:
    # Keyboards compose accents differently; the same password must match on each of them.
    return unicodedata.normalize("NFKC", password)
