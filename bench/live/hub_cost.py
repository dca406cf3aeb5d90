"""Cost of an announcement before anything is sent: decode it, find the sockets, keep the order."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from time import perf_counter
from uuid import UUID, uuid4

from bench.live.loads import FRAME, SOCKETS
from catraca.domains.notifications import Hub
from catraca.domains.notifications.messages.model import Announcement, encode_announcements
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.database import Database

ROUNDS = 200


async def hub_microseconds(database_url: str) -> float:
    """Return microseconds per delivery, with sockets that cost nothing."""
    database = await Database.open(database_url)
    people = [uuid4() for _ in range(SOCKETS)]
    hub = Hub(database, None, revoked=_none_revoked)
    left = 0

    async def send(_: bytes) -> None:
        pass

    def send_now(_: bytes) -> bool:
        nonlocal left
        left -= 1
        return True

    async def close(code: int, reason: str) -> None:
        raise RuntimeError(reason)

    sessions = [Session(_principal(one), "en", send, send_now, close, hub.read_since) for one in people]
    for session in sessions:
        await hub.join(session, since=None)
    while any(session._delivering for session in sessions):  # noqa: SLF001, ASYNC110 - reads of the greeting
        await asyncio.sleep(0.001)
    payloads = [_payload(people, seq) for seq in range(1, ROUNDS + 1)]
    left = ROUNDS * SOCKETS
    began = perf_counter()
    for payload in payloads:
        hub._on_announcements(payload)  # noqa: SLF001 - what its listener calls
        await asyncio.sleep(0)
    taken = perf_counter() - began
    if left:
        raise RuntimeError(f"{left} were not sent at once")
    for session in sessions:
        hub.leave(session)
    await database.close()
    return taken / (ROUNDS * SOCKETS) * 1e6


def _payload(people: list[UUID], seq: int) -> bytes:
    return encode_announcements([Announcement(one, seq, FRAME.encode()) for one in people])


def _principal(user_id: UUID) -> Principal:
    at = now()
    return Principal(
        id=user_id, roles=frozenset({"passenger"}), issued_at=at, expires_at=at + timedelta(hours=1)
    )


async def _none_revoked(principals: Sequence[Principal]) -> list[bool]:
    return [False] * len(principals)
