"""A device on a real socket, and a server that notifies users."""

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
from catraca.domains.notifications.messages.model import Announcement
from catraca.domains.notifications.model import Notification, SourceEvent
from catraca.events import RideStarted
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from catraca.platform.database import Database
from catraca.platform.event import Event
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient
from catraca.roles.api import hub_of
from catraca.roles.parts import Parts
from tests.domains.people.person import Person
from tests.support.http import Served
from tests.support.redis_server import PATIENT

# Longer means stuck.
TIMEOUT_SECONDS = 30
NOTICES_SECONDS = 2 * TIMEOUT_SECONDS

Frame = dict[str, Any]


class Device:
    """Reads frames and sends messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: Frame = {}
        # All frames received, as text.
        self.received: list[str] = []

    async def next(self) -> Frame:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            text = await self.socket.recv()
        assert isinstance(text, str)
        self.received.append(text)
        return msgspec.json.decode(text)

    async def notices(self, count: int) -> list[Frame]:
        """Return the next `count` notifications; only heartbeats may come between them."""
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

    async def send_message(self, kind: str, data: object = None, message_id: str | None = "m") -> None:
        message: dict[str, object] = {"type": kind, **({} if data is None else {"data": data})}
        await self.socket.send(
            msgspec.json.encode(message | ({"id": message_id} if message_id else {})).decode()
        )

    async def ask(self, kind: str, data: object = None) -> Frame:
        """Send a message and return its answer; other frames are skipped."""
        await self.send_message(kind, data, message_id := uuid4().hex)
        while (frame := await self.next()).get("id") != message_id:
            pass
        return frame

    async def is_silent(self) -> bool:
        """Return True if no frame was on its way: the reply comes after earlier frames."""
        count = len(self.received)
        assert (await self.ask("ping"))["type"] == "reply"
        return len(self.received) == count + 1

    async def closed(self) -> tuple[int | None, str]:
        """Read to the end; return the server's close code and reason."""
        try:
            while True:
                await self.next()
        except ConnectionClosed as ended:
            return (None, "") if ended.rcvd is None else (ended.rcvd.code, ended.rcvd.reason)


@asynccontextmanager
async def opened(
    url: str, headers: dict[str, str] | None = None, *, query: str = "", **options: Any
) -> AsyncIterator[Device]:
    """Open a socket and read `hello`."""
    address = url.replace("http://", "ws://") + "/v1/ws" + (f"?{query}" if query else "")
    usual: dict[str, Any] = {"compression": None, "user_agent_header": None, "close_timeout": 1}
    async with connect(address, additional_headers=headers, **usual | options) as socket:
        device = Device(socket)
        device.hello = await device.next()
        assert device.hello["type"] == "hello"
        yield device


async def refusal(url: str, headers: Any = None, *, query: str = "", **options: Any) -> tuple[int, str]:
    """Return status and code with which a socket is refused."""
    try:
        async with opened(url, headers, query=query, **options):
            raise AssertionError("it was opened")
    except InvalidStatus as refused:
        answer = refused.response
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status_code, msgspec.json.decode(answer.body or b"")["code"]


def started(user: UUID) -> RideStarted:
    """Return an event that notifies a passenger and needs no rows."""
    return RideStarted(ride_id=uuid4(), round=1, rider_id=user, driver_id=uuid4(), started_at=now())


@dataclass
class LiveServer:
    """An API with a notifier."""

    parts: Parts
    served: Served
    api: httpx.AsyncClient
    # With long limits: on a busy machine announcements would time out and be dropped.
    redis: RedisClient
    # Announcements that were not published.
    unannounced: list[bytes] = field(default_factory=list)

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
        user = await Person(role).known_to(self.api)
        if fields:
            assert (await user.change(self.api, **fields)).status_code == 200
        return user

    def notifier(self, *, announced: bool = True) -> Notifier:
        async def announce(payload: bytes) -> object:
            if announced:
                return await redis_pubsub.publish(self.redis, NOTIFICATIONS_CHANNEL, payload)
            self.unannounced.append(payload)
            return None

        return Notifier(announce, currency="BRL")

    async def notify(self, *events: Event, announced: bool = True) -> list[Announcement]:
        """Insert notifications in one transaction, and announce them if `announced`."""
        sources = [SourceEvent(new_id(), event) for event in events]
        notifier = self.notifier(announced=announced)
        return await self.database.run(lambda db: notifier.notify(db, sources))

    async def notify_user(self, user: Person, count: int, *, announced: bool = True) -> list[Announcement]:
        return await self.notify(*(started(user.id) for _ in range(count)), announced=announced)

    def device(self, user: Person, since: int | None = None, **options: Any) -> Any:
        return opened(self.url, user.headers, query="" if since is None else f"since={since}", **options)

    async def frames_of(self, user: Person) -> list[str]:
        """Return the user's rows as frames."""
        rows = await self.sql(
            "SELECT user_id, seq, type, data::text AS data, created_at, read_at FROM notifications"
            " WHERE user_id = $1 ORDER BY seq",
            user.id,
        )
        return [Notification(**row).frame().decode() for row in rows]

    async def ticket(self, user: Person) -> str:
        answer = await self.api.post("/v1/ws/ticket", headers=user.headers)
        assert answer.status_code == 201, answer.text
        return answer.json()["ticket"]

    async def sql(self, query: str, *args: object) -> Sequence[Any]:
        async with self.database.connection() as db:
            return await db.fetch(query, *args)


@asynccontextmanager
async def open_live_server(parts: Parts, served: Served) -> AsyncIterator[LiveServer]:
    redis = RedisClient(parts.settings.servers.redis_url, limits=PATIENT)
    try:
        async with served.client() as client:
            yield LiveServer(parts, served, client, redis)
    finally:
        await redis.close()
