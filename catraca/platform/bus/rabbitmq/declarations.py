"""Declares the topology on the broker: exchanges, queues, bindings and retry queues."""

import re
from collections.abc import Iterable
from typing import Any

from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import ChannelPreconditionFailed

from catraca.platform.bus.rabbitmq.connection import broker_call, spare_channel
from catraca.platform.bus.topology import (
    ExchangeKind,
    Queue,
    RetryQueue,
    Topology,
    TopologyRefused,
    delay_name,
    milliseconds,
)

# RabbitMQ 4 drops a message after 20 deliveries by default; a queue without dead letters must keep it.
NO_DELIVERY_LIMIT = 1_000_000_000
DOCUMENT = "docs/raffle-migration.md"
RETRY_NAME = re.compile(r"(\w+_)?retry_[0-9]+m?s")


class QueueDiffers(TopologyRefused):
    """The broker has a queue or exchange of that name with other settings; only the operator can decide."""


def retry_name(delay_seconds: float) -> str:
    """Name of the exchange and queue for one delay. A changed delay declares new ones; the old ones drain."""
    return f"retry_{delay_name(delay_seconds)}"


def queue_arguments(queue: Queue, topology: Topology) -> dict[str, Any]:
    if queue.transient_seconds is not None:
        return {
            "x-queue-type": "classic",
            "x-message-ttl": milliseconds(queue.transient_seconds),
            "x-max-length": queue.max_length,
            "x-overflow": "drop-head",
        }
    arguments: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-max-length": queue.max_length,
        "x-overflow": "reject-publish",
        "x-delivery-limit": NO_DELIVERY_LIMIT,
    }
    if queue.dead_letters_to is not None:
        arguments["x-delivery-limit"] = topology.delivery_limit
        arguments["x-dead-letter-exchange"] = queue.dead_letters_to
        arguments["x-dead-letter-strategy"] = "at-least-once"
    if queue.dead_letter_key is not None:
        arguments["x-dead-letter-routing-key"] = queue.dead_letter_key
    if queue.single_active:
        arguments["x-single-active-consumer"] = True
    return arguments


def retry_arguments(delay_seconds: float, own: RetryQueue | None = None) -> dict[str, Any]:
    """An expired message goes to the default exchange with its key, the name of the queue in which it failed.

    From a queue's own retry queue (`own`) it returns by that queue's exchange.
    """
    arguments: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-message-ttl": milliseconds(delay_seconds),
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-strategy": "at-least-once",
    }
    if own is not None:
        arguments["x-dead-letter-exchange"], arguments["x-dead-letter-routing-key"] = own.returns_by
    return arguments


async def declare_topology(
    connection: AbstractConnection, topology: Topology, retry_delays_seconds: Iterable[float]
) -> None:
    """Declare what is missing; raises `QueueDiffers` if something exists with other settings."""
    async with spare_channel(connection) as channel:
        for exchange in topology.exchanges:
            await _declare_exchange(channel, exchange, topology.kind_of(exchange))
        for queue in topology.queues:
            durable = queue.transient_seconds is None
            await _declare_queue(channel, queue.name, queue_arguments(queue, topology), durable=durable)
            for exchange, pattern in topology.bindings(queue):
                await _bind(channel, queue.name, exchange, pattern)
        for delay in retry_delays_seconds:
            name = retry_name(delay)
            await _declare_exchange(channel, name, "fanout")
            await _declare_queue(channel, name, retry_arguments(delay), durable=True)
            await _bind(channel, name, name, "")
        for own in (queue.retries_in for queue in topology.queues):
            if own is not None:
                await _declare_exchange(channel, own.exchange, "direct")
                await _declare_queue(channel, own.name, retry_arguments(own.delay_seconds, own), durable=True)
                await _bind(channel, own.name, own.exchange, own.name)


async def count_messages(connection: AbstractConnection, queue: str) -> tuple[int, int]:
    """The number of waiting messages in a queue, and of its consumers."""
    async with spare_channel(connection) as channel, broker_call():
        found = await channel.queue_declare(queue, passive=True)
    return found.message_count or 0, found.consumer_count or 0


async def _declare_exchange(channel: AbstractChannel, name: str, kind: ExchangeKind) -> None:
    async with broker_call():
        try:
            await channel.exchange_declare(name, exchange_type=kind, durable=True)
        except ChannelPreconditionFailed as error:
            remedy = (
                f"delete it, and Catraca declares it as a {kind} exchange; an exchange stores no messages"
            )
            raise QueueDiffers(_refusal("exchange", name, remedy, error)) from error


async def _declare_queue(
    channel: AbstractChannel, name: str, arguments: dict[str, Any], *, durable: bool
) -> None:
    async with broker_call():
        try:
            await channel.queue_declare(name, durable=durable, arguments=arguments)
        except ChannelPreconditionFailed as error:
            remedy = "let it run empty and delete it, or restore the old setting"
            raise QueueDiffers(_refusal("queue", name, remedy, error)) from error


async def _bind(channel: AbstractChannel, queue: str, exchange: str, pattern: str) -> None:
    async with broker_call():
        await channel.queue_bind(queue, exchange, pattern)


def _refusal(kind: str, name: str, remedy: str, error: ChannelPreconditionFailed) -> str:
    return (
        f"RabbitMQ already has {kind} {name} with other settings than ours, which cannot be changed in place:"
        f" {remedy}. {DOCUMENT} has the steps. RabbitMQ says: {error}"
    )
