"""An operator inspects, edits and replays a failed message. A repeated replay has one effect.

Through the real API, relay and consumers. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

from catraca.domains.dead_letters.letters.handlers import store_dead_letter
from catraca.events import UserCreated
from catraca.platform.bus import EventHandlers, Headers, Message, Queue, Topology
from catraca.platform.database import Db
from catraca.platform.event import encode
from catraca.platform.ids import new_id
from catraca.roles import consumers
from catraca.roles.parts import Parts, open_parts
from catraca.settings import Settings
from tests.conftest import bearer, free_port, listening
from tests.servers import Stack, until
from tests.support.roles import working

pytestmark = pytest.mark.parametrize(
    "stack",
    ["embedded", pytest.param("servers", marks=pytest.mark.xdist_group("rabbitmq"))],
    indirect=True,
    scope="session",
)
OPERATOR_ID = uuid4()
OPERATOR = bearer("operator", OPERATOR_ID)


@dataclass
class Post:
    """Two queues that receive `user.created`, one of which can be made to fail, and the operators' API."""

    parts: Parts
    api: httpx.AsyncClient
    welcomes: Queue
    counts: Queue
    broken: list[bool] = field(default_factory=list)
    _markers: set[UUID] = field(default_factory=set)

    async def publish(self, *bodies: bytes) -> list[UUID]:
        exchange = next(iter(self.parts.topology.exchanges))
        messages = [
            Message(
                id=new_id(),
                exchange=exchange,
                key="user.created",
                body=body,
                headers=Headers(trace="a-request"),
            )
            for body in bodies
        ]
        assert await self.parts.bus.publish(messages) == [None] * len(messages)
        return [message.id for message in messages]

    async def ask(self, method: str, path: str, **body: Any) -> Any:
        json = {"json": body} if method != "GET" else {"params": body}
        answer = await self.api.request(method, f"/v1/dead-letters{path}", headers=OPERATOR, **json)
        assert answer.is_success, answer.text
        return answer.json()

    async def letters(self, count: int, **query: Any) -> list[dict[str, Any]]:
        """Wait for `count` dead letters and return them; fail if there are more."""

        async def found() -> list[dict[str, Any]]:
            items = (await self.ask("GET", "", **query))["items"]
            assert len(items) <= count
            return items if len(items) == count else []

        return await until(found)

    async def effects(self, queue: Queue) -> list[UUID]:
        """The test's messages that this queue's handler finished, once for each time."""
        return [one for one in await self._handled(queue) if one not in self._markers]

    async def _handled(self, queue: Queue) -> list[UUID]:
        async with self.parts.database.connection() as db:
            rows = await db.fetch("SELECT message_id FROM effects WHERE queue = $1", queue.name)
        return [row["message_id"] for row in rows]

    async def until_applied(self, queue: Queue, *message_ids: UUID) -> None:
        async def all_there() -> bool:
            return set(message_ids) <= set(await self._handled(queue))

        await until(all_there)

    async def until_quiet(self) -> None:
        """Wait until every message so far was handled: one at a time, so a last message comes after them.

        An empty queue is not enough: RabbitMQ counts no message that a consumer has and is handling.
        """

        async def all_sent() -> bool:
            async with self.parts.database.connection() as db:
                return await db.fetchval("SELECT count(*) = 0 FROM outbox WHERE queue IS NOT NULL")

        await until(all_sent)
        (marker,) = await self.publish(sound())
        self._markers.add(marker)
        for queue in (self.welcomes, self.counts):
            await self.until_applied(queue, marker)


@asynccontextmanager
async def quietly() -> AsyncIterator[None]:
    with capture_logs():  # printing a traceback for people takes a second
        yield


@asynccontextmanager
async def opened(
    stack: Stack, settings: Settings, topology: Topology, amqp_url: str | None
) -> AsyncIterator[Parts]:
    url = await stack.migrated_database(f"post_{uuid4().hex[:8]}")
    changes = {"database_url": url, "amqp_url": amqp_url, "port": free_port()}
    async with open_parts(settings.changed(**changes), topology=topology) as parts:
        async with parts.database.connection() as db:
            await db.execute("CREATE TABLE effects (queue text NOT NULL, message_id uuid NOT NULL)")
            # The operator exists already, so the only events are the test's own.
            await db.execute("INSERT INTO users (id, roles) VALUES ($1, '{operator}')", OPERATOR_ID)
        yield parts


@pytest.fixture
def broker(stack: Stack, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None


@pytest.fixture
async def post(
    stack: Stack, settings: Settings, broker: str | None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Post]:
    tag = uuid4().hex[:8]  # no other test's queues on the same broker
    users, dlx = f"users_{tag}", f"dlx_{tag}"
    said: dict[str, Any] = {
        "binds": ("user.*",),
        "role": "notifier",
        "does": "Hears.",
        "dead_letters_to": dlx,
        "concurrency": 1,
    }
    welcomes, counts = Queue(name=f"welcomes_{tag}", **said), Queue(name=f"counts_{tag}", **said)
    grave = Queue(
        name=f"letters_{tag}",
        binds=(dlx,),
        role="housekeeper",
        does="Keeps.",
        remembers=False,
        dead_letters_to=None,
    )
    topology = Topology(
        exchanges={users: ("user.created",), dlx: ()},
        queues=(welcomes, counts, grave),
        retry_delays_seconds=(0.05, 0.1),
    )
    broken: list[bool] = []

    async def note(db: Db, queue: Queue, message: Message) -> None:
        await db.execute("INSERT INTO effects VALUES ($1, $2)", queue.name, message.id)

    welcoming, counting = EventHandlers[()](welcomes.name), EventHandlers[()](counts.name)
    keeping = EventHandlers[()](grave.name)
    keeping.anything(store_dead_letter)

    @welcoming(UserCreated)
    async def welcome(db: Db, _event: UserCreated, message: Message) -> None:
        await note(db, welcomes, message)
        if broken:
            raise KeyError

    @counting.anything
    async def count(db: Db, message: Message) -> None:
        await note(db, counts, message)

    monkeypatch.setattr(consumers, "HANDLERS", ((welcoming,), (counting,), (keeping,)))
    async with (
        quietly(),
        opened(stack, settings, topology, broker) as parts,
        working(parts, ["relay", "notifier", "housekeeper"]),
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as api,
    ):
        yield Post(parts, api, welcomes, counts, broken)


def sound() -> bytes:
    return encode(UserCreated(user_id=uuid4(), roles=("driver",)))


async def test_failed_message_is_inspected_edited_and_replayed(post: Post) -> None:
    (message_id,) = await post.publish(sound().replace(b'"user_id":"', b'"user_id":"x-'))
    (listed,) = await post.letters(1)
    assert (listed["queue"], listed["message_id"]) == (post.welcomes.name, str(message_id))
    assert (listed["shape"]["user_id"], listed["shape"]["roles"]) == ("[text]", ["[text]"])
    (group,) = (await post.ask("GET", "/groups"))["items"]
    assert (group["queue"], group["reason"], group["count"]) == (post.welcomes.name, listed["reason"], 1)
    path = f"/{listed['id']}"
    opened = await post.ask("GET", path)
    body = opened["body"]["value"]
    assert (body["user_id"][:2], opened["headers"]["trace"]) == ("x-", "a-request")
    unfit = await post.api.put(f"/v1/dead-letters{path}/body", headers=OPERATOR, json={"body": {}})
    assert unfit.json()["code"] == "dead_letter_body_unfit"
    await post.ask("PUT", f"{path}/body", body={**body, "user_id": body["user_id"].removeprefix("x-")})
    for _ in range(2):
        await post.ask("POST", f"{path}/replay")
    await post.until_applied(post.welcomes, message_id)
    await post.until_quiet()
    await post.ask("POST", f"{path}/replay")  # and once more, when it is long done
    await post.until_quiet()
    assert await post.effects(post.welcomes) == [message_id]
    # The queue that handled the original has not received the replay.
    assert await post.effects(post.counts) == [message_id]
    assert (await post.ask("GET", ""))["items"] == []
    (letter,) = await post.letters(1, state="replayed")
    assert (letter["id"], letter["times"]) == (listed["id"], 1)
    assert (await post.ask("GET", "/groups"))["items"] == []


async def test_a_replay_that_fails_again_can_be_replayed_in_bulk(post: Post) -> None:
    post.broken.append(True)
    message_ids = await post.publish(*(sound() for _ in range(5)))
    letters = await post.letters(5, reason="KeyError")
    assert await post.effects(post.welcomes) == [], "what failed left nothing behind"
    first = letters[0]
    await post.ask("POST", f"/{first['id']}/replay")

    async def died_again() -> bool:
        return (await post.ask("GET", f"/{first['id']}"))["times"] == 2

    await until(died_again)
    assert len(await post.letters(5)) == 5
    post.broken.clear()
    outcome = await post.ask(
        "POST", "/replay", filter={"reason": "KeyError"}, rate_per_second=20, dry_run=False
    )
    assert (outcome["matched"], outcome["replayed"], outcome["seconds"]) == (5, 5, 0.2)
    await post.until_applied(post.welcomes, *message_ids)
    await post.until_quiet()
    assert sorted(await post.effects(post.welcomes)) == sorted(message_ids)
    assert sorted(await post.effects(post.counts)) == sorted(message_ids)
    async with post.parts.database.connection() as db:
        rows = await db.fetch("SELECT headers FROM outbox_sent WHERE queue IS NOT NULL")
    headers = [msgspec.json.decode(row["headers"], type=Headers) for row in rows]
    assert {(one.retries, one.queue, one.reason, one.trace) for one in headers} == {
        (0, None, None, "a-request")
    }


async def test_a_discarded_message_stays_gone(post: Post) -> None:
    await post.publish(b'{"event_type": "user.created"}')
    (letter,) = await post.letters(1)
    await post.ask("POST", f"/{letter['id']}/discard", reason="a test of the old client")
    await post.until_quiet()
    assert (await post.ask("GET", ""))["items"] == []
    assert await post.effects(post.welcomes) == []
