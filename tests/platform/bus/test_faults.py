"""Messages that cannot be handled, on every bus: retried with growing delays, then dead letters."""

from uuid import UUID, uuid4

import pytest

from catraca.domains.dead_letters.letters.store import insert_dead_letter
from catraca.platform.bus import EventHandlers, Message, Queue
from catraca.platform.bus.outcome import OUTCOMES
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.event import Event
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus


class Clumsy:
    """Fails on each message the given number of times, and records its attempts."""

    def __init__(self, times: dict[UUID, int], error: Exception | None = None) -> None:
        self.attempts: list[tuple[UUID, int]] = []
        self._times = times
        self._error = error or ValueError("words that quote a value")

    async def handle(self, _db: Db, message: Message) -> None:
        self.attempts.append((message.id, message.headers.retries))
        if message.headers.retries < self._times.get(message.id, 0):
            raise self._error

    def retries_of(self, message: Message) -> list[int]:
        return [retries for message_id, retries in self.attempts if message_id == message.id]


async def test_failed_message_is_retried_and_affects_no_other(world: World) -> None:
    queue, bystander = world.queue("clumsy"), world.queue("bystander")
    await world.open(queue, bystander)
    twice, good = world.message(body=b'{"n": 1}', about=uuid4(), seq=7), world.message()
    clumsy = Clumsy({twice.id: 2})
    async with world.consuming(queue, clumsy.handle):
        await world.publish(twice, good)
        found = {message.id: message for message in await world.until_applied(queue, 2)}
    assert clumsy.retries_of(twice) == [0, 1, 2]
    assert clumsy.retries_of(good) == [0]
    assert found[good.id] == good
    assert found[twice.id] == twice.with_headers(retries=2, retry_reason="ValueError"), (
        "nothing else about it has changed"
    )
    await world.until_waiting(bystander, 2)  # a retry goes to the queue that failed, and to no other
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_each_retry_waits_longer_than_the_one_before(world: World) -> None:
    """One message begins its long second wait before another begins its short first one, and is overtaken."""
    queue = world.queue("patient", concurrency=2)
    await world.open(queue, retry_delays_seconds=(0.1, 2.0))
    early, late = world.message(), world.message()
    seen: list[tuple[UUID, int]] = []
    put_off = OUTCOMES.labels(queue.name, "retried")

    async def fail_twice(_db: Db, message: Message) -> None:
        seen.append((message.id, message.headers.retries))
        if message.id == late.id and message.headers.retries == 0:
            await until(lambda: put_off._value.get() == 2)
        if message.headers.retries < 2:
            raise ValueError

    async with world.consuming(queue, fail_twice):
        await world.publish(early, late)
        await world.until_applied(queue, 2)
    assert seen.index((late.id, 1)) < seen.index((early.id, 2))


async def test_message_failing_every_retry_is_dead_lettered_unchanged(world: World) -> None:
    queue = world.queue("failing")
    await world.open(queue)
    message = world.message(body=b'{"n": 1}', about=uuid4(), seq=3).with_headers(round=2, trace="r-1")
    clumsy = Clumsy({message.id: 99}, NotFound())
    async with world.consuming(queue, clumsy.handle):
        await world.publish(message)
        await world.until_waiting(world.dead, 1)
    assert clumsy.retries_of(message) == [0, 1, 2, 3]
    assert await world.ids(queue) == []
    (letter,) = await world.buried(1)
    assert letter == message.with_headers(
        retries=3, retry_reason="not_found", queue=queue.name, reason="not_found"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "malformed_json"),
        (b'{"of no importance": ' + b"[" * 100_000, "malformed_json"),
        (b"\xff", "malformed_json"),
        (b"[" * 100_000, "wrong_shape"),
        (b'{"event_type": "other.key"}', "wrong_shape"),
        (b'{"thing_id": 7}', "wrong_shape"),
    ],
)
async def test_an_unreadable_body_is_a_dead_letter_at_once(world: World, body: bytes, reason: str) -> None:
    queue = world.queue("strict")
    await world.open(queue)
    handled: list[Event] = []
    handlers = _strict(queue, handled)
    bad, good = world.message(body=body), world.message(body=_readable())
    async with world.running(queue, handlers):
        await world.publish(bad, good)
        await world.until_waiting(world.dead, 1)
        await until(lambda: handled)
    (letter,) = await world.buried(1)
    assert letter == bad.with_headers(queue=queue.name, reason=reason)
    assert len(handled) == 1


async def test_a_key_without_a_handler_is_retried(world: World) -> None:
    queue = world.queue("old", "#")
    await world.open(queue, keys=(KEY, "thing.new"), retry_delays_seconds=(0.05, 1))
    handled: list[Event] = []
    await world.publish(message := world.message("thing.new", about=uuid4(), seq=1))
    async with world.running(queue, _strict(queue, handled)):
        await world.until_waiting(queue, 0)  # the key is unknown, so the message was delayed
    async with world.consuming(queue):
        (found,) = await world.until_applied(queue, 1)
    assert found.id == message.id
    assert found.headers.retries >= 1
    assert handled == []


async def test_a_message_that_dies_in_two_queues_is_two_dead_letters(world: World) -> None:
    queues = [world.queue("one"), world.queue("other")]
    await world.open(*queues)
    message = world.message()
    clumsy = Clumsy({message.id: 99})
    async with world.consuming(queues[0], clumsy.handle), world.consuming(queues[1], clumsy.handle):
        await world.publish(message)
        await world.until_waiting(world.dead, 2)
    letters = await world.buried(2)
    assert {letter.id for letter in letters} == {message.id}
    assert {letter.headers.queue for letter in letters} == {queue.name for queue in queues}
    async with world.database.transaction() as db:
        for letter in letters:
            await insert_dead_letter(db, letter)
            await insert_dead_letter(db, letter)  # again, as after a crash or a replay
        stored = await db.fetch(
            "SELECT queue, reason, times FROM dead_letters WHERE message_id = $1", message.id
        )
    assert sorted((row["queue"], row["reason"], row["times"]) for row in stored) == sorted(
        (queue.name, "ValueError", 2) for queue in queues
    )


async def test_a_message_without_a_dead_letter_queue_is_retried_rarely(world: World) -> None:
    queue = world.queue("last", dead_letters_to=None)
    await world.open(queue, retry_delays_seconds=(0.05,))
    message = world.message(body=b'{"n": 1}')
    clumsy = Clumsy({message.id: 3})
    async with world.consuming(queue, clumsy.handle):
        await world.publish(message)
        (found,) = await world.until_applied(queue, 1)
    assert clumsy.retries_of(message) == [0, 1, 2, 3]
    assert found == message.with_headers(retries=3, retry_reason="ValueError")


def _strict(queue: Queue, handled: list[Event]) -> EventHandlers[()]:
    class Happened(Event, frozen=True, kw_only=True, tag=KEY):
        exchange = "of no importance"
        about = "thing_id"
        thing_id: UUID

    handlers = EventHandlers[()](queue.name)

    @handlers(Happened)
    async def handle(_db: Db, event: Happened, _message: Message) -> None:
        handled.append(event)

    return handlers


def _readable() -> bytes:
    return b'{"event_type": "%s", "thing_id": "%s"}' % (KEY.encode(), str(uuid4()).encode())
