"""UUIDv7 (RFC 9562): ids that sort by the time they were made, so that indexes grow at one end."""

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last_tick = 0


def new_id() -> UUID:
    """A new UUIDv7, strictly greater than every one this process made before."""
    global _last_tick
    # 48 bits of milliseconds, then 12 bits of the millisecond's fraction: one tick is about 244 ns.
    nanoseconds = time.time_ns()
    tick = (nanoseconds // 1_000_000 << 12) | (nanoseconds % 1_000_000 * 4096 // 1_000_000)
    with _lock:
        # A clock set back or two calls within a tick must not break the order.
        tick = _last_tick = max(tick, _last_tick + 1)
    random_bits = int.from_bytes(os.urandom(8)) >> 2
    return UUID(int=(tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | random_bits)
