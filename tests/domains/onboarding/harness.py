"""Sign-ups on one of the buses: an API, its queue, and ingesters on request."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID, uuid4

import aiormq
import httpx
import msgspec
import pamqp.frame
import pytest
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from catraca.domains.onboarding.model import SignUp, encode_sign_up
from catraca.events import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE
from catraca.platform.bus import Headers, Message
from catraca.platform.database import Row
from catraca.roles.parts import Parts
from tests.servers import until
from tests.support.roles import working

# The embedded stack has the PostgreSQL bus, the servers RabbitMQ. One xdist worker has the broker.
SERVERS = pytest.param("servers", marks=pytest.mark.xdist_group("rabbitmq"))
on_both_buses = pytest.mark.parametrize("stack", ["embedded", SERVERS], indirect=True, scope="session")
on_rabbitmq = pytest.mark.parametrize("stack", [SERVERS], indirect=True, scope="session")
# Short waits before batches are written and retried.
QUICK = {"users_batch_timeout_ms": 20, "retry_ttl_ms": 40}
PATHS = ("/v1/users", "/api/v1/users", "/users")


@dataclass(frozen=True)
class Receipt:
    """The response to a queued sign-up."""

    id: UUID
    token: str


@dataclass
class SignUpHarness:
    """`sign_up` and `ask` use the API; `put` publishes directly to the queue."""

    parts: Parts
    api: httpx.AsyncClient
    # Captured log lines.
    log: list[Any] = field(default_factory=list)

    async def post(
        self,
        name: str = "Ana Moura",
        email: str | None = None,
        *,
        key: str | None = None,
        path: str = PATHS[0],
    ) -> httpx.Response:
        headers = {} if key is None else {"idempotency-key": key}
        body = {"name": name, "email": email or new_address()}
        return await self.api.post(path, json=body, headers=headers)

    async def sign_up(self, *args: Any, **options: Any) -> Receipt:
        answer = await self.post(*args, **options)
        assert answer.status_code == 200, answer.text
        return Receipt(UUID(answer.json()["id"]), answer.json()["status_token"])

    async def status(self, receipt: Receipt) -> httpx.Response:
        headers = {"authorization": f"Bearer {receipt.token}"}
        return await self.api.get(f"/v1/users/{receipt.id}/status", headers=headers)

    async def ask(self, receipt: Receipt) -> tuple[str, str | None]:
        """The status, and the reason if there is one."""
        answer = await self.status(receipt)
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == str(receipt.id)
        return answer.json()["status"], answer.json()["reason"]

    async def put(self, *messages: Message) -> None:
        """Publish directly to the queue, like any client of the broker."""
        assert await self.parts.bus.publish(messages) == [None] * len(messages)

    async def put_raw(self, body: bytes, *, message_id: str | None = None, **properties: Any) -> None:
        """Publish by plain AMQP, without our headers."""
        # Frame by frame: a client library would add a missing id.
        given = Basic.Properties(message_id=message_id, **properties)
        frames = [
            Basic.Publish(exchange=SIGN_UP_EXCHANGE, routing_key=SIGN_UP_QUEUE),
            ContentHeader(properties=given, body_size=len(body)),
            ContentBody(body),
        ]
        connection = await aiormq.connect(str(self.parts.settings.servers.amqp_url))
        try:
            channel = cast(Channel, await connection.channel())
            payload = b"".join(pamqp.frame.marshal(frame, channel.number) for frame in frames)
            await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))
            await channel.close()  # its reply comes after the publish was processed
        finally:
            await connection.close()

    @asynccontextmanager
    async def ingesting(self, *roles: str) -> AsyncIterator[None]:
        async with working(self.parts, roles or ["ingester", "housekeeper"]):
            yield

    @asynccontextmanager
    async def refusing(self, name: str) -> AsyncIterator[None]:
        """Make the database refuse users of this name, with personal data in the error."""
        async with self.parts.database.transaction() as db:
            await db.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF NEW.name = '{name}' THEN RAISE EXCEPTION 'no room for %, %', NEW.name, NEW.email;"
                " END IF; RETURN NEW; END $$"
            )
            await db.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        try:
            yield
        finally:
            async with self.parts.database.transaction() as db:
                await db.execute("DROP FUNCTION refuse CASCADE")

    async def ingested(self, *sign_up_ids: UUID, dead: int = 0) -> None:
        """Run an ingester until these are handled and exactly `dead` dead letters are stored."""

        async def all_are() -> bool:
            query = "SELECT id FROM sign_ups WHERE id = ANY ($1::uuid[])"
            handled = await self.fetch(query, list(sign_up_ids))
            return len(handled) == len(set(sign_up_ids)) and len(await self.dead_letters()) >= dead

        async with self.ingesting():
            await until(all_are)
            await until(self.is_empty)
        assert await self.left() == {}, "no message is left, also not in delivery"
        assert len(await self.dead_letters()) == dead

    async def is_empty(self) -> bool:
        return await self.left() == {}

    async def left(self) -> dict[str, int]:
        """The depth of each queue and retry queue, without the audit log."""
        again = {f"{name} again": depth for name, depth in (await self.parts.bus.retrying()).items()}
        depths = {**await self.parts.bus.depths(), **again}
        return {name: depth for name, depth in depths.items() if depth and "audit_log" not in name}

    async def until_waiting(self, count: int) -> None:
        """Wait until the sign-up queue has this many messages and all others are empty."""

        async def so_many() -> bool:
            return (await self.left()).get(SIGN_UP_QUEUE, 0) >= count

        await until(so_many)
        assert await self.left() == {SIGN_UP_QUEUE: count}

    async def empty(self) -> None:
        """Delete all sign-ups, messages, events and dead letters."""
        tables = "bus_messages, bus_delayed, dead_letters, sign_ups, outbox, outbox_sent"
        async with self.parts.database.transaction() as db:
            await db.execute(f"TRUNCATE {tables}")
        if self.parts.settings.servers.amqp_url is None:
            return
        await self.parts.bus.declare()
        connection = await aiormq.connect(str(self.parts.settings.servers.amqp_url))
        try:
            channel = await connection.channel()
            for name in [*await self.parts.bus.depths(), *await self.parts.bus.retrying()]:
                await channel.queue_purge(name)
        finally:
            await connection.close()

    async def dead_letters(self) -> Sequence[Row]:
        return await self.fetch("SELECT * FROM dead_letters ORDER BY died_at, id")

    async def reasons(self) -> list[str]:
        """The reasons of the dead letters."""
        return sorted(letter["reason"] for letter in await self.dead_letters())

    async def outcome(self, sign_up_id: UUID) -> str | None:
        """`created`, the reason of the rejection, or None if it was not handled yet."""
        rows = await self.fetch("SELECT rejected FROM sign_ups WHERE id = $1", sign_up_id)
        return (rows[0]["rejected"] or "created") if rows else None

    async def event_keys(self, *sign_up_ids: UUID) -> list[str]:
        """The keys of all events about these users, sent or not."""
        rows = await self.fetch(
            "SELECT routing_key FROM outbox WHERE aggregate_id = ANY ($1::uuid[])"
            " UNION ALL SELECT routing_key FROM outbox_sent WHERE aggregate_id = ANY ($1::uuid[])",
            list(sign_up_ids),
        )
        return sorted(row["routing_key"] for row in rows)

    async def person(self, user_id: UUID) -> Row | None:
        rows = await self.fetch("SELECT * FROM users WHERE id = $1", user_id)
        return rows[0] if rows else None

    async def fetch(self, query: str, *values: object) -> Sequence[Row]:
        async with self.parts.database.connection() as db:
            return await db.fetch(query, *values)


def new_address() -> str:
    return f"{uuid4().hex}@example.com"


def body_of(**changes: object) -> bytes:
    """The body of a message."""
    return msgspec.json.encode({"id": uuid4(), "name": "Ana Moura", "email": new_address(), **changes})


def message(body: bytes, *, message_id: UUID | None = None, **headers: Any) -> Message:
    return Message(
        id=message_id or uuid4(),
        exchange=SIGN_UP_EXCHANGE,
        key=SIGN_UP_QUEUE,
        body=body,
        headers=Headers(**headers),
    )


def valid_message(
    sign_up_id: UUID, email: str | None = None, *, name: str = "Ana Moura", **headers: Any
) -> Message:
    """The message of a valid sign-up."""
    sign_up = SignUp(
        id=sign_up_id, name=name, email=email or new_address(), language="pt-BR", request_id=uuid4()
    )
    return message(encode_sign_up(sign_up), message_id=sign_up.request_id, **headers)
