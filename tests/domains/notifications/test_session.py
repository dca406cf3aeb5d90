"""A session drops stale positions, and closes the socket if a delivery fails."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

from catraca.domains.notifications.model import Notification
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from tests.domains.notifications.test_positions import position
from tests.servers import until


async def test_stale_positions_are_dropped_after_a_stall() -> None:
    """After a time without reads, only the newest fresh position of a ride is sent."""
    sent, reading = list[str](), asyncio.Event()

    async def send(frame: str) -> None:
        await reading.wait()
        sent.append(frame)

    async def close(code: int, reason: str) -> None:
        raise AssertionError(reason)

    async def no_rows(_since: tuple[UUID, int]) -> list[Notification]:
        return []

    ana = Principal(uuid4(), frozenset({"passenger"}), now(), now() + timedelta(hours=1))
    session = Session(ana, "en", send, close, no_rows, seq=0)
    session.announce(1, "a notification that the peer does not read")
    await asyncio.sleep(0)
    ended, driving = uuid4(), uuid4()
    session.show_position(
        position(ana.id, ride_id=ended, taken_at=now() - timedelta(seconds=6)), "where it ended"
    )
    session.show_position(position(ana.id, ride_id=driving), "where it was")
    session.show_position(position(ana.id, ride_id=driving), "where it is")
    reading.set()
    await until(lambda: session._delivering is None)
    assert sent == ["a notification that the peer does not read", "where it is"]


async def test_failed_delivery_closes_the_socket_with_1011() -> None:
    ends = list[tuple[int, str]]()

    async def send(_frame: str) -> None:
        raise ZeroDivisionError

    async def close(code: int, reason: str) -> None:
        ends.append((code, reason))

    async def no_rows(_since: tuple[UUID, int]) -> list[Notification]:
        return []

    ana = Principal(uuid4(), frozenset({"passenger"}), now(), now() + timedelta(hours=1))
    session = Session(ana, "en", send, close, no_rows, seq=0)
    session.announce(1, "never sent")
    await until(lambda: bool(ends))
    assert ends == [(1011, "internal_error")]
    assert session.closed
