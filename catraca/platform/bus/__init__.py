"""The bus: delivers events from the outbox to every queue bound to them, on RabbitMQ or in PostgreSQL."""

from catraca.platform.bus.handlers import (
    Arrival,
    EventHandlers,
    HandleAlone,
    QueueHandlers,
    Unreadable,
    batch_handlers,
    message_handlers,
)
from catraca.platform.bus.message import Delivery, Headers, Message
from catraca.platform.bus.queue_worker import QueueWorker
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
    "Arrival",
    "BusAway",
    "Delivery",
    "EventHandlers",
    "HandleAlone",
    "Headers",
    "Message",
    "PublishFailed",
    "Queue",
    "QueueFull",
    "QueueHandlers",
    "QueueWorker",
    "Subscription",
    "Topology",
    "TopologyRefused",
    "Transport",
    "Unreadable",
    "Unroutable",
    "batch_handlers",
    "check_topology",
    "message_handlers",
]
