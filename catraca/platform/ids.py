"""Ids and secret tokens. Ids are UUIDv7 (RFC 9562): they sort by time, so that indexes grow at one end."""

import hashlib
import os
import secrets
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last_tick = 0


def new_id() -> UUID:
    """A new UUIDv7, greater than every id that this process has made."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """As many new ids, rising, in less time than one by one."""
    global _last_tick
    # 48 bits of milliseconds, then 12 bits of the millisecond's fraction: one tick is about 244 ns.
    nanoseconds = time.time_ns()
    tick = (nanoseconds // 1_000_000 << 12) | (nanoseconds % 1_000_000 * 4096 // 1_000_000)
    with _lock:
        # A clock set back or two calls within a tick must not break the order.
        tick = max(tick, _last_tick + 1)
        _last_tick = tick + count - 1
    random_bytes = os.urandom(8 * count)
    return [
        _id_at(tick + number, int.from_bytes(random_bytes[8 * number : 8 * number + 8]))
        for number in range(count)
    ]


def _id_at(tick: int, random_bits: int) -> UUID:
    parts = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | random_bits >> 2
    return UUID(int=parts)


def new_token() -> str:
    """256 random bits in 43 URL-safe characters, for links and tickets."""
    return secrets.token_urlsafe(32)


def token_digest(token: str) -> bytes:
    """The SHA-256 of a token. The database holds digests only, so that reading it gives no access."""
    return hashlib.sha256(token.encode()).digest()
