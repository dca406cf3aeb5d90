"""A device on a real socket, and what is needed to tell its person something."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, Hub, Notifier
from catraca.domains.notifications.model import Notification, SourceEvent
from catraca.events import RideStarted
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from catraca.platform.database import Database
from catraca.platform.event import Event
from catraca.platform.ids import new_id
from catraca.roles.api import hub_of
from catraca.roles.parts import Parts
from tests.domains.people.person import Person
from tests.support.http import Served

# Beyond this something is stuck.
PATIENCE_SECONDS = 30
NOTICES_SECONDS = 2 * PATIENCE_SECONDS

Frame = dict[str, Any]


class Device:
    """Reads frames as they come, and says things."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: Frame = {}
        # Everything that was heard, letter by letter.
        self.heard: list[str] = []

    async def next(self) -> Frame:
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = await self.socket.recv()
        assert isinstance(said, str)
        self.heard.append(said)
        return msgspec.json.decode(said)

    async def notices(self, count: int) -> list[Frame]:
        """The next so many with a number; nothing else may come in between but heartbeats."""
        found: list[Frame] = []
        async with asyncio.timeout(NOTICES_SECONDS):
            while len(found) < count:
                frame = await self.next()
                if frame["type"] != "heartbeat":
                    assert "seq" in frame, frame
                    found.append(frame)
        return found

    async def seqs(self, count: int) -> list[int]:
        return [one["seq"] for one in await self.notices(count)]

    async def say(self, kind: str, data: object = None, message_id: str | None = "m") -> None:
        said: dict[str, object] = {"type": kind, **({} if data is None else {"data": data})}
        await self.socket.send(
            msgspec.json.encode(said | ({"id": message_id} if message_id else {})).decode()
        )

    async def ask(self, kind: str, data: object = None) -> Frame:
        """What is answered; everything else that comes meanwhile is passed over."""
        await self.say(kind, data, message_id := uuid4().hex)
        while (frame := await self.next()).get("id") != message_id:
            pass
        return frame

    async def is_silent(self) -> bool:
        """Whether nothing was on its way: a question is answered after whatever was said before it."""
        heard = len(self.heard)
        assert (await self.ask("ping"))["type"] == "reply"
        return len(self.heard) == heard + 1

    async def closed(self) -> tuple[int | None, str]:
        """Why the server closed it; what comes before that is heard."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as ended:
            return (None, "") if ended.rcvd is None else (ended.rcvd.code, ended.rcvd.reason)


@asynccontextmanager
async def opened(
    url: str, headers: dict[str, str] | None = None, *, query: str = "", **options: Any
) -> AsyncIterator[Device]:
    """A device that has been greeted."""
    address = url.replace("http://", "ws://") + "/v1/ws" + (f"?{query}" if query else "")
    usual: dict[str, Any] = {"compression": None, "user_agent_header": None, "close_timeout": 1}
    async with connect(address, additional_headers=headers, **usual | options) as socket:
        device = Device(socket)
        device.hello = await device.next()
        assert device.hello["type"] == "hello"
        yield device


async def refusal(url: str, headers: Any = None, *, query: str = "", **options: Any) -> tuple[int, str]:
    """With what status and code a socket is not opened."""
    try:
        async with opened(url, headers, query=query, **options):
            raise AssertionError("it was opened")
    except InvalidStatus as refused:
        answer = refused.response
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status_code, msgspec.json.decode(answer.body or b"")["code"]


def started(someone: UUID) -> RideStarted:
    """Something to tell a passenger of that needs nothing else to be there."""
    return RideStarted(ride_id=uuid4(), round=1, rider_id=someone, driver_id=uuid4(), started_at=now())


@dataclass
class Room:
    """An API, and somebody who tells people things."""

    parts: Parts
    served: Served
    api: httpx.AsyncClient
    # What was to be announced, when nobody is to hear of it.
    unheard: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    @property
    def hub(self) -> Hub:
        return hub_of(self.served.server.config.app)  # type: ignore[arg-type]

    @property
    def database(self) -> Database:
        return self.parts.database

    async def newcomer(self, role: str = "passenger", **fields: str) -> Person:
        someone = await Person(role).known_to(self.api)
        if fields:
            assert (await someone.change(self.api, **fields)).status_code == 200
        return someone

    def notifier(self, *, loudly: bool = True) -> Notifier:
        async def announce(payload: bytes) -> object:
            if loudly:
                return await redis_pubsub.publish(self.parts.redis, NOTIFICATIONS_CHANNEL, payload)
            self.unheard.append(payload)
            return None

        return Notifier(announce, currency="BRL")

    async def tell(self, *events: Event, loudly: bool = True) -> list[Notification]:
        """In one transaction, and announced unless nobody is to hear of it."""
        sources = [SourceEvent(new_id(), event) for event in events]
        notifier = self.notifier(loudly=loudly)
        return await self.database.run(lambda db: notifier.notify(db, sources))

    async def tell_some(self, someone: Person, count: int, *, loudly: bool = True) -> list[Notification]:
        return await self.tell(*(started(someone.id) for _ in range(count)), loudly=loudly)

    def device(self, someone: Person, since: int | None = None, **options: Any) -> Any:
        return opened(self.url, someone.headers, query="" if since is None else f"since={since}", **options)

    async def frames_of(self, someone: Person) -> list[str]:
        """The person's rows as sockets carry them."""
        rows = await self.sql(
            "SELECT user_id, seq, type, data::text AS data, created_at, read_at FROM notifications"
            " WHERE user_id = $1 ORDER BY seq",
            someone.id,
        )
        return [Notification(**row).frame() for row in rows]

    async def ticket(self, someone: Person) -> str:
        answer = await self.api.post("/v1/ws/ticket", headers=someone.headers)
        assert answer.status_code == 201, answer.text
        return answer.json()["ticket"]

    async def sql(self, query: str, *args: object) -> Sequence[Any]:
        async with self.database.connection() as db:
            return await db.fetch(query, *args)


@asynccontextmanager
async def room_of(parts: Parts, served: Served) -> AsyncIterator[Room]:
    async with served.client() as client:
        yield Room(parts, served, client)
