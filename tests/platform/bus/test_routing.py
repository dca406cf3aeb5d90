"""Where messages go, on every bus: patterns, copies, and keys without a queue."""

from uuid import uuid4

from catraca.platform.bus import Message, QueueFull, Unroutable
from catraca.platform.database import Db
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus


async def test_a_star_stands_for_one_word_and_a_hash_for_any_number(world: World) -> None:
    keys = ("ride", "ride.started", "ride.started.late", "offer.started", "user.created")
    expected = {
        world.queue("exact", "ride.started"): {"ride.started"},
        world.queue("one", "ride.*"): {"ride.started"},
        world.queue("any", "ride.#"): {"ride", "ride.started", "ride.started.late"},
        world.queue("inner", "*.started.#"): {"ride.started", "ride.started.late", "offer.started"},
        world.queue("all", "#"): set(keys),
    }
    await world.open(*expected, keys=keys)
    await world.publish(*(world.message(key) for key in keys))
    for queue, wanted in expected.items():
        async with world.consuming(queue):
            await world.until_applied(queue, len(wanted))
        await world.until_waiting(queue, 0)
        assert sorted(message.key for message in await world.applied(queue)) == sorted(wanted)


async def test_a_direct_exchange_takes_no_patterns(world: World) -> None:
    exact, pattern = world.queue("exact", "thing.known"), world.queue("pattern", "thing.*", "#")
    keys = ("thing.known", "thing.new")
    await world.open(exact, pattern, keys=keys, direct=frozenset({world.exchange}))
    confirmed, refused = await world.bus.publish([world.message("thing.known"), world.message("thing.new")])
    assert confirmed is None
    assert isinstance(refused, Unroutable)
    await world.until_waiting(exact, 1)
    await world.until_waiting(pattern, 0)


async def test_dead_letters_get_the_key_of_their_queue(world: World) -> None:
    graves = f"graves_{world.tag}"
    failing = world.queue("failing", dead_letters_to=graves, dead_letter_key="grave")
    grave = world.queue("grave", "grave", dead_letters_to=None, remembers=False)
    other = world.queue("other", KEY, dead_letters_to=None)
    options = {"exchanges": {graves: ("grave", KEY)}, "direct": frozenset({graves})}
    await world.open(failing, grave, other, retry_delays_seconds=(0.05,), **options)

    async def fail(_db: Db, _message: Message) -> None:
        raise ValueError

    async with world.consuming(failing, fail):
        await world.publish(message := world.message())
        await world.until_waiting(grave, 1)
    async with world.consuming(grave):
        (letter,) = await world.until_applied(grave, 1)
    # The letter still says with which key the message was published.
    assert (letter.id, letter.exchange, letter.key) == (message.id, message.exchange, KEY)
    assert (letter.headers.queue, letter.headers.reason) == (failing.name, "ValueError")
    await world.until_waiting(other, 1)


async def test_every_queue_bound_to_a_key_gets_one_copy(world: World) -> None:
    twice_bound = world.queue("twice_bound", KEY, "thing.*", "#")
    other, foreign = world.queue("other"), world.queue("foreign", "else.happened")
    await world.open(twice_bound, other, foreign, keys=(KEY, "else.happened"))
    message = world.message(body=b'{"a": 1}')
    await world.publish(message)
    for queue in (twice_bound, other):
        async with world.consuming(queue):
            await world.until_applied(queue, 1)
        assert await world.applied(queue) == [message]
    assert set((await world.bus.depths()).values()) == {0}


async def test_a_repeated_message_is_applied_once_by_each_queue(world: World) -> None:
    queues = [world.queue("one", batch=4, concurrency=1), world.queue("other")]
    await world.open(*queues)
    message, last = world.message(), world.message()
    await world.publish(message)
    await world.publish(message)
    await world.publish(message, last)
    for queue in queues:
        async with world.consuming(queue):
            await until(lambda queue=queue: _has(world, queue, last.id))
        await world.until_waiting(queue, 0)
        assert sorted(await world.ids(queue)) == sorted([message.id, last.id])


async def test_a_key_without_a_queue_is_unroutable_and_harms_no_other(world: World) -> None:
    queue = world.queue("only", "thing.known")
    await world.open(queue, keys=("thing.known", "thing.new"))
    lost, kept = world.message("thing.new"), world.message("thing.known")
    refused, confirmed = await world.bus.publish([lost, kept])
    assert isinstance(refused, Unroutable)
    assert confirmed is None
    await world.until_waiting(queue, 1)


async def test_relay_keeps_an_unroutable_event_until_its_queue_exists(world: World) -> None:
    keys = ("thing.known", "thing.new")
    known, new = world.queue("known", "thing.known"), world.queue("new", "#", single_active=True)
    about, neighbour = uuid4(), uuid4()
    await world.open(known, keys=keys)
    await world.record(
        world.event(about, 1, "thing.new"),
        world.event(about, 2, "thing.known"),
        world.event(neighbour, 3, "thing.known"),
    )
    async with world.relaying():
        await world.until_waiting(known, 1)
    assert await world.unsent() == 2, "what comes behind an event that cannot leave must not overtake it"
    await world.open(known, new, keys=keys)
    async with world.relaying(), world.consuming(new):
        found = await world.until_applied(new, 2)
    assert [(one.headers.aggregate_id, one.headers.seq) for one in found] == [(about, 1), (about, 2)]


async def test_a_full_queue_refuses_until_a_message_is_taken(world: World) -> None:
    small = world.queue("small", "small.#", max_length=5, concurrency=1)
    large = world.queue("large", "#")
    await world.open(small, large, keys=("small.thing", "large.thing"))

    async def refused() -> bool:
        (outcome,) = await world.bus.publish([world.message("small.thing")])
        assert outcome is None or isinstance(outcome, QueueFull)
        return outcome is not None

    await until(refused)  # a broker may accept one or two too many
    assert 5 <= (await world.bus.depths())[small.name] <= 8
    await world.publish(world.message("large.thing"))
    async with world.consuming(small):
        await world.until_waiting(small, 0)

        async def taken() -> bool:
            return not await refused()

        await until(taken)


async def test_messages_refused_by_a_full_queue_are_sent_in_order(world: World) -> None:
    queue = world.queue("small", max_length=4, concurrency=1, single_active=True)
    await world.open(queue)
    things = [uuid4() for _ in range(3)]
    await world.record(*(world.event(thing, number) for number in range(8) for thing in things))
    async with world.relaying():
        await until(lambda: _refusals(world))
        async with world.consuming(queue):
            found = await world.until_applied(queue, 24)
    assert len(found) == 24
    for thing in things:
        numbers = [one.headers.seq for one in found if one.headers.aggregate_id == thing]
        assert numbers == list(range(1, 9))
    assert await world.unsent() == 0


async def _has(world: World, queue: object, message_id: object) -> bool:
    return message_id in await world.ids(queue)  # type: ignore[arg-type]


async def _refusals(world: World) -> int:
    async with world.database.connection() as db:
        return await db.fetchval("SELECT max(failures) FROM outbox")
