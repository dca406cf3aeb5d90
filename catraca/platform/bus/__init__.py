"""The bus: events from the outbox to every queue bound to them, on RabbitMQ or in PostgreSQL alike."""

from catraca.platform.bus.handlers import QueueHandlers, Unreadable, handlers_for
from catraca.platform.bus.message import Delivery, Headers, Message
from catraca.platform.bus.queue_worker import Consumer
from catraca.platform.bus.topology import Queue, Topology, TopologyRefused, check_topology
from catraca.platform.bus.transport import (
    BusAway,
    PublishFailed,
    QueueFull,
    Subscription,
    Transport,
    Unroutable,
)

__all__ = [
    "BusAway",
    "Consumer",
    "Delivery",
    "Headers",
    "Message",
    "PublishFailed",
    "Queue",
    "QueueFull",
    "QueueHandlers",
    "Subscription",
    "Topology",
    "TopologyRefused",
    "Transport",
    "Unreadable",
    "Unroutable",
    "check_topology",
    "handlers_for",
]
