"""Each number arrives once and in order, with lost, repeated and reordered announcements and slow readers.

The rows are real, the client is simulated: it reads when the test says so.
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
from tests.domains.notifications.devices import LiveServer
from tests.domains.people.person import Person
from tests.servers import on_one_stack, until
from tests.support.examples import examples

pytestmark = on_one_stack

STEPS = st.one_of(
    st.tuples(st.just("notify"), st.integers(1, 4)),
    # Any earlier announcement, also repeatedly.
    st.tuples(st.just("announce"), st.integers(0, 50)),
    st.tuples(st.sampled_from(["poll", "reconnect", "read", "stop reading", "pause"]), st.just(0)),
    # Long enough for a read of the rows to begin, but not to end.
    st.tuples(st.just("breathe"), st.integers(1, 4)),
)


@dataclass
class Peer:
    """A user's device over several connections."""

    hub: Hub
    principal: Principal
    seqs: list[int] = field(default_factory=list)
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    session: Session | None = None

    async def connect(self) -> None:
        """Reconnect from the last number; frames on the way are lost."""
        if self.session is not None:
            self.hub.leave(self.session)

        async def send(frame: bytes) -> None:
            message = msgspec.json.decode(frame)
            if "seq" in message:
                await self.reads.wait()
                self.seqs.append(message["seq"])

        def send_now(frame: bytes) -> bool:
            if not self.reads.is_set():
                return False
            self.seqs.append(msgspec.json.decode(frame)["seq"])
            return True

        async def close(code: int, reason: str) -> None:
            raise AssertionError(reason)

        self.session = Session(self.principal, "en", send, send_now, close, self.hub.read_since)
        await self.hub.join(self.session, since=self.seqs[-1] if self.seqs else 0)


async def step(live_server: LiveServer, user: Person, peer: Peer, action: str, number: int) -> None:
    assert peer.session is not None
    match action:
        case "notify":
            await live_server.notify_user(user, number, announced=False)
        case "announce":
            if live_server.unannounced:
                peer.hub._on_announcements(live_server.unannounced[number % len(live_server.unannounced)])
        case "poll":
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
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@example(steps=[("notify", 2), ("reconnect", 0), ("breathe", 2), ("announce", 0), ("read", 0)], page=3)
@given(steps=st.lists(STEPS, max_size=30), page=st.integers(1, 3))
async def test_each_number_arrives_once_and_in_order(
    live_server: LiveServer, steps: list[tuple[str, int]], page: int
) -> None:
    async def none_revoked(principals: Any) -> list[bool]:
        return [False for _ in principals]

    with pytest.MonkeyPatch.context() as patch:
        # A small limit, so that it is exceeded.
        patch.setattr(sessions, "PAGE_ROWS", page)
        patch.setattr("catraca.domains.notifications.sockets.hub.PAGE_ROWS", page)
        live_server.unannounced.clear()
        ana = await live_server.newcomer()
        principal = Principal(ana.id, frozenset({"passenger"}), now(), now().replace(year=9999))
        peer = Peer(Hub(live_server.database, None, revoked=none_revoked), principal)
        await peer.connect()
        for action, number in steps:
            await step(live_server, ana, peer, action, number)
        count = sum(number for action, number in steps if action == "notify")
        peer.reads.set()
        session = peer.session
        assert session is not None
        session.catch_up()
        await until(lambda: session._delivering is None, seconds=20)
        peer.hub.leave(session)
        assert peer.seqs == list(range(1, count + 1))
