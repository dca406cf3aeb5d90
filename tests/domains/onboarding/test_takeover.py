"""Sign-ups on a broker that has the exchanges and queues of the seed, or those of an earlier Catraca."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiormq
import pytest
from aiormq.abc import AbstractChannel

from catraca.events import TOPOLOGY
from catraca.platform.bus.rabbitmq import QueueDiffers, RabbitMqBus
from catraca.settings import Settings
from tests.domains.onboarding.harness import QUICK, SignUpHarness, message, on_rabbitmq
from tests.rabbitmq import RabbitMq
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.roles import own_parts

pytestmark = on_rabbitmq

DOCUMENT = Path(__file__).parents[3] / "docs/raffle-migration.md"
SEED_EXCHANGES = dict.fromkeys(("raffle_exchange", "raffle_retry_exchange", "raffle_dlx"), "direct")
SEED_QUEUES: dict[str, dict[str, Any]] = {
    "raffle_queue": {"x-dead-letter-exchange": "raffle_dlx", "x-dead-letter-routing-key": "raffle_dlq"},
    "raffle_retry_10s": {
        "x-message-ttl": 10_000,
        "x-dead-letter-exchange": "raffle_exchange",
        "x-dead-letter-routing-key": "raffle_queue",
    },
    "raffle_dlq": {},
}
EARLIER_EXCHANGES = {"raffle_exchange": "topic", "raffle_retry_exchange": "direct", "raffle_dlx": "fanout"}
EARLIER_QUEUES: dict[str, dict[str, Any]] = {
    "raffle_queue": {
        "x-queue-type": "quorum",
        "x-max-length": 1_000_000,
        "x-overflow": "reject-publish",
        "x-delivery-limit": 50,
        "x-dead-letter-exchange": "raffle_dlx",
        "x-dead-letter-strategy": "at-least-once",
    }
}


class Host:
    """A virtual host: a broker of its own, on the node that all tests share."""

    def __init__(self, broker: RabbitMq, channel: AbstractChannel, name: str) -> None:
        self._broker = broker
        self._channel = channel
        self.name = name
        self.url = broker.url + name

    async def declare(self, exchanges: dict[str, str], queues: dict[str, dict[str, Any]]) -> None:
        for exchange, kind in exchanges.items():
            await self._channel.exchange_declare(exchange, exchange_type=kind, durable=True)
        for queue, arguments in queues.items():
            await self._channel.queue_declare(queue, durable=True, arguments=arguments)

    async def reject_one(self, queue: str) -> None:
        """Take a message and reject it, like a consumer that cannot handle it."""
        got = await self._channel.basic_get(queue)
        assert got.delivery_tag is not None
        await self._channel.basic_reject(got.delivery_tag, requeue=False)

    async def follow(self, section: str) -> None:
        """Run the commands of this section of the document."""
        text = DOCUMENT.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        commands = re.findall(r"^rabbitmqctl (.+)$", text, re.MULTILINE)
        assert commands, "the section has commands"
        for command in commands:
            arguments = shlex.split(command.replace('<<"/">>', f'<<"{self.name}">>'))
            options = [] if arguments[0] == "eval" else ["--vhost", self.name]
            await self._broker.ctl(*arguments, *options)


@pytest.fixture
async def host(stack: Stack, rabbitmq: RabbitMq) -> AsyncIterator[Host]:
    name = f"takeover-{uuid4().hex[:8]}"
    await rabbitmq.ctl("add_vhost", name)
    await rabbitmq.ctl("set_permissions", "--vhost", name, "guest", ".*", ".*", ".*")
    connection = await aiormq.connect(rabbitmq.url + name)
    try:
        yield Host(rabbitmq, await connection.channel(), name)
    finally:
        await connection.close()
        await rabbitmq.ctl("delete_vhost", name)


@pytest.fixture
async def harness(stack: Stack, settings: Settings, host: Host) -> AsyncIterator[SignUpHarness]:
    async with (
        own_parts(stack, settings, amqp_url=host.url, **QUICK) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield SignUpHarness(parts, client)


async def test_exchanges_of_the_seed_are_used(host: Host, harness: SignUpHarness) -> None:
    await host.declare(SEED_EXCHANGES, {})
    one = await harness.sign_up()
    await harness.ingested(one.id)
    assert await harness.outcome(one.id) == "created"


async def test_rejected_sign_up_becomes_a_dead_letter(host: Host, harness: SignUpHarness) -> None:
    await host.declare(SEED_EXCHANGES, {})
    await harness.put(unreadable := message(b"{no json"))
    await harness.ingested(dead=1)
    rejected = await harness.sign_up()
    await harness.until_waiting(1)
    await host.reject_one("raffle_queue")
    async with harness.ingesting():
        await until(lambda: _has_letters(harness, 2))
    letters = {letter["reason"]: letter for letter in await harness.dead_letters()}
    assert letters.keys() == {"malformed_json", "rejected"}
    assert letters["malformed_json"]["message_id"] == unreadable.id
    assert str(rejected.id) in bytes(letters["rejected"]["body"]).decode()
    for letter in letters.values():
        assert (letter["queue"], letter["routing_key"]) == ("raffle_queue", "raffle_queue")


@pytest.mark.parametrize("queue", SEED_QUEUES)
async def test_each_classic_queue_is_refused_by_name(host: Host, queue: str) -> None:
    await host.declare(SEED_EXCHANGES, {queue: SEED_QUEUES[queue]})
    bus = RabbitMqBus(host.url, TOPOLOGY)
    try:
        with pytest.raises(QueueDiffers, match=f"already has queue {queue} .*docs/raffle-migration.md"):
            await bus.declare()
    finally:
        await bus.close()


@pytest.mark.parametrize(
    ("exchanges", "queues", "refused", "section"),
    [
        pytest.param(SEED_EXCHANGES, SEED_QUEUES, "queue raffle_dlq", "From the RaffleAPI", id="seed"),
        pytest.param(
            EARLIER_EXCHANGES,
            EARLIER_QUEUES,
            "exchange raffle_exchange",
            "From a Catraca with a fanout `raffle_dlx`",
            id="earlier Catraca",
        ),
        pytest.param(
            {"raffle_exchange": "topic"},
            {},
            "exchange raffle_exchange",
            "An exchange of another kind",
            id="another kind",
        ),
    ],
)
async def test_the_documents_steps_end_the_refusal(
    host: Host,
    harness: SignUpHarness,
    exchanges: dict[str, str],
    queues: dict[str, dict[str, Any]],
    refused: str,
    section: str,
) -> None:
    await host.declare(exchanges, queues)
    with pytest.raises(QueueDiffers, match=f"already has {refused} .*docs/raffle-migration.md"):
        await harness.parts.bus.declare()
    await host.follow(section)
    one = await harness.sign_up()
    await harness.ingested(one.id)
    assert await harness.outcome(one.id) == "created"


async def _has_letters(harness: SignUpHarness, count: int) -> bool:
    return len(await harness.dead_letters()) == count
