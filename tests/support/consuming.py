"""A consumer process to kill: takes messages, says which, and never finishes one.

Reads its `Errand`, pickled, from standard input.
"""

import asyncio
import pickle
import sys
from dataclasses import dataclass

from catraca.platform.bus import Consumer, Message, QueueHandlers, Topology, Transport
from catraca.platform.bus.postgres import PostgresBus, subscription
from catraca.platform.database import Database, Db
from catraca.platform.telemetry import configure_logging

# Of a process that will be killed: nobody wants to wait longer for what it had in hand.
LEASE_SECONDS = 1.0


@dataclass(frozen=True)
class Errand:
    database_url: str
    broker_url: str | None
    topology: Topology
    queue: str


async def hold_for_ever(_db: Db, message: Message) -> None:
    print(message.id, flush=True)
    await asyncio.Event().wait()


async def consume(errand: Errand) -> None:
    database = await Database.open(errand.database_url)
    handlers = QueueHandlers(errand.queue)
    handlers.anything(hold_for_ever)
    consumer = Consumer(
        errand.topology.queue(errand.queue),
        handlers,
        topology=errand.topology,
        transport=_transport(errand, database),
        database=database,
    )
    await consumer.run(asyncio.Event())


def _transport(errand: Errand, database: Database) -> Transport:
    if errand.broker_url is None:
        subscription.LEASE_SECONDS, subscription.RENEW_SECONDS = LEASE_SECONDS, LEASE_SECONDS / 3
        return PostgresBus(database, errand.topology)
    from catraca.platform.bus.rabbitmq import RabbitMqBus

    return RabbitMqBus(errand.broker_url, errand.topology)


if __name__ == "__main__":
    configure_logging("critical")  # away from standard output, which the test reads
    asyncio.run(consume(pickle.load(sys.stdin.buffer)))
