"""News is lost, repeated and overtaken, readers are slow, lines break: each number comes once and in order.

The rows are real; only the peer is not: it takes frames when it likes, and forgets none it has taken.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catraca.domains.notifications.sockets import session as sessions
from catraca.domains.notifications.sockets.hub import Hub
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from tests.domains.notifications.devices import Room
from tests.domains.people.person import Person
from tests.servers import on_one_stack, until

pytestmark = on_one_stack

STEPS = st.one_of(
    st.tuples(st.just("tell"), st.integers(1, 4)),
    # Any of the announcements so far, again and again.
    st.tuples(st.just("announce"), st.integers(0, 50)),
    st.tuples(st.sampled_from(["look", "reconnect", "read", "stop reading", "pause"]), st.just(0)),
    # Long enough for a look at the rows to begin, and not to end.
    st.tuples(st.just("breathe"), st.integers(1, 4)),
)


@dataclass
class Peer:
    """One person's device, over as many connections as it takes."""

    hub: Hub
    principal: Principal
    seqs: list[int] = field(default_factory=list)
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    session: Session | None = None

    async def connect(self) -> None:
        """Anew, from the last number it has; what was on its way to it is lost."""
        if self.session is not None:
            self.hub.leave(self.session)

        async def send(frame: str) -> None:
            said = msgspec.json.decode(frame)
            if "seq" in said:
                await self.reads.wait()
                self.seqs.append(said["seq"])

        async def close(code: int, reason: str) -> None:
            raise AssertionError(reason)

        self.session = Session(self.principal, "en", send, close, self.hub.read_since)
        await self.hub.join(self.session, since=self.seqs[-1] if self.seqs else 0)


async def step(room: Room, someone: Person, peer: Peer, what: str, number: int) -> None:
    assert peer.session is not None
    match what:
        case "tell":
            await room.tell_some(someone, number, loudly=False)
        case "announce":
            if room.unheard:
                peer.hub._on_announcements(room.unheard[number % len(room.unheard)])
        case "look":
            peer.session.catch_up()
        case "reconnect":
            await peer.connect()
        case "read":
            peer.reads.set()
        case "stop reading":
            peer.reads.clear()
        case "breathe":
            for _ in range(number):
                await asyncio.sleep(0)
        case _:
            await asyncio.sleep(0.002)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@example(steps=[("tell", 2), ("reconnect", 0), ("breathe", 2), ("announce", 0), ("read", 0)], kept=3, page=3)
@given(steps=st.lists(STEPS, max_size=30), kept=st.integers(1, 3), page=st.integers(1, 3))
async def test_each_number_arrives_once_and_in_order(
    room: Room, steps: list[tuple[str, int]], kept: int, page: int
) -> None:
    async def nobody(principals: Any) -> list[bool]:
        return [False for _ in principals]

    with pytest.MonkeyPatch.context() as patch:
        # Small, so that all that happens beyond them does happen.
        patch.setattr(sessions, "MAX_QUEUED", kept)
        patch.setattr(sessions, "PAGE_ROWS", page)
        patch.setattr("catraca.domains.notifications.sockets.hub.PAGE_ROWS", page)
        room.unheard.clear()
        ana = await room.newcomer()
        principal = Principal(ana.id, frozenset({"passenger"}), now(), now().replace(year=9999))
        peer = Peer(Hub(room.database, None, revoked=nobody), principal)
        await peer.connect()
        for what, number in steps:
            await step(room, ana, peer, what, number)
        count = sum(number for what, number in steps if what == "tell")
        peer.reads.set()
        session = peer.session
        assert session is not None
        # What it was going to send by itself comes first: a look would make it forget that.
        await until(lambda: session._delivering is None)
        session.catch_up()
        await until(lambda: session._delivering is None, seconds=20)
        peer.hub.leave(session)
        assert peer.seqs == list(range(1, count + 1))
