"""A consumer process to kill: takes messages, says which, and never finishes one.

Reads its `Errand`, pickled, from standard input.
"""

import asyncio
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catraca.platform.bus import EventHandlers, Message, QueueHandlers, QueueWorker, Topology, Transport
from catraca.platform.bus.handlers import EventReader
from catraca.platform.bus.postgres import PostgresBus, subscription
from catraca.platform.database import Database, Db
from catraca.platform.telemetry import configure_logging

# Short leases: messages of a killed process come back soon.
LEASE_SECONDS = 1.0


@dataclass(frozen=True)
class Errand:
    database_url: str
    broker_url: str | None
    topology: Topology
    queue: str
    batching: bool = False


async def hold_for_ever(_db: Db, message: Message) -> None:
    print(message.id, flush=True)
    await asyncio.Event().wait()


async def hold_all_for_ever(_db: Db, messages: Sequence[Message]) -> None:
    print(*(message.id for message in messages), flush=True)
    await asyncio.Event().wait()


async def as_it_is(message: Message) -> Message:
    return message


async def consume(errand: Errand) -> None:
    database = await Database.open(errand.database_url)
    consumer = _consumer(errand, database)
    await consumer.run(asyncio.Event())


def _consumer(errand: Errand, database: Database) -> QueueWorker[Any]:
    queue, transport = errand.topology.queue(errand.queue), _transport(errand, database)
    handlers: QueueHandlers[Any]
    if errand.batching:
        handlers = QueueHandlers(
            queue=queue.name, keys=None, prepare=as_it_is, write=hold_all_for_ever, check=EventReader().check
        )
    else:
        handlers = each = EventHandlers[()](errand.queue)
        each.anything(hold_for_ever)
    return QueueWorker(queue, handlers, topology=errand.topology, transport=transport, database=database)


def _transport(errand: Errand, database: Database) -> Transport:
    if errand.broker_url is None:
        subscription.LEASE_SECONDS, subscription.RENEW_SECONDS = LEASE_SECONDS, LEASE_SECONDS / 3
        return PostgresBus(database, errand.topology)
    from catraca.platform.bus.rabbitmq import RabbitMqBus

    return RabbitMqBus(errand.broker_url, errand.topology)


def main() -> None:
    configure_logging("critical")  # away from standard output, which the test reads
    asyncio.run(consume(pickle.load(sys.stdin.buffer)))
