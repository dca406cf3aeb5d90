"""A session sends what is next at once, drops stale positions, and closes the socket if a delivery fails."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from catraca.domains.notifications.model import Notification
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from tests.domains.notifications.test_positions import position
from tests.servers import until


def frame_of(seq: int) -> bytes:
    return b'{"seq":%d,"type":"ride.started","data":{}}' % seq


@dataclass
class Peer:
    """A simulated client with its user's rows."""

    rows: int = 0
    sent: list[bytes] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    def session(self) -> Session:
        ana = Principal(uuid4(), frozenset({"passenger"}), now(), now() + timedelta(hours=1))
        return Session(ana, "en", self.send, self.send_now, self.close, self.read_since, seq=0)

    async def send(self, frame: bytes) -> None:
        await self.reads.wait()
        assert self.send_now(frame)

    def send_now(self, frame: bytes) -> bool:
        if self.fails:
            raise ZeroDivisionError
        if self.reads.is_set():
            self.sent.append(frame)
        return self.reads.is_set()

    async def close(self, code: int, reason: str) -> None:
        self.ends.append((code, reason))

    async def read_since(self, since: tuple[UUID, int]) -> list[Notification]:
        user_id, seq = since
        return [
            Notification(user_id, one, "ride.started", "{}", now()) for one in range(seq + 1, self.rows + 1)
        ]


async def test_next_numbers_are_sent_at_once() -> None:
    peer = Peer()
    peer.reads.set()
    session = peer.session()
    session.announce(1, frame_of(1))
    session.announce(1, frame_of(1))
    session.announce(2, frame_of(2))
    assert peer.sent == [frame_of(1), frame_of(2)], "without a turn of the event loop"
    assert session.seq == 2
    peer.rows = 5
    session.announce(4, frame_of(4))
    session.announce(5, frame_of(5))
    await until(lambda: session._delivering is None)
    assert peer.sent == [frame_of(seq) for seq in range(1, 6)], "3 was read from the rows, before 4 and 5"


async def test_unread_announcements_are_read_from_rows_later() -> None:
    peer = Peer(rows=3)
    session = peer.session()
    for seq in (1, 2, 3):
        session.announce(seq, frame_of(seq))
    await asyncio.sleep(0)
    assert peer.sent == []
    peer.reads.set()
    await until(lambda: session._delivering is None)
    assert peer.sent == [frame_of(1), frame_of(2), frame_of(3)]


async def test_announcement_does_not_overtake_a_waiting_frame() -> None:
    peer = Peer(rows=1)
    session = peer.session()
    session.announce(1, frame_of(1))
    await until(lambda: session.seq == 1)
    assert peer.sent == [], "the client does not read yet"
    peer.rows = 2
    peer.reads.set()
    session.announce(2, frame_of(2))
    await until(lambda: session._delivering is None)
    assert peer.sent == [frame_of(1), frame_of(2)]


async def test_stale_positions_are_dropped_after_a_stall() -> None:
    """After a time without reads, only the newest fresh position of a ride is sent."""
    peer = Peer(rows=1)
    session = peer.session()
    session.announce(1, frame_of(1))
    await asyncio.sleep(0)
    passenger_id, ended, driving = session.user_id, uuid4(), uuid4()
    session.show_position(
        position(passenger_id, ride_id=ended, taken_at=now() - timedelta(seconds=6)), b"where it ended"
    )
    session.show_position(position(passenger_id, ride_id=driving), b"where it was")
    session.show_position(position(passenger_id, ride_id=driving), b"where it is")
    peer.reads.set()
    await until(lambda: session._delivering is None)
    assert peer.sent == [frame_of(1), b"where it is"]


async def test_failed_delivery_closes_the_socket_with_1011() -> None:
    """The failure does not reach the hub, which has other sockets."""
    peer = Peer(rows=1, fails=True)
    peer.reads.set()
    session = peer.session()
    session.announce(1, frame_of(1))
    await until(lambda: bool(peer.ends))
    assert peer.ends == [(1011, "internal_error")]
    assert session.closed
