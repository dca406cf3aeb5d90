"""The bus on RabbitMQ: quorum queues, confirms, and a reconnection of our own (decision 15)."""

from catraca.platform.bus.rabbitmq.bus import RabbitMqBus
from catraca.platform.bus.rabbitmq.declarations import QueueDiffers

__all__ = ["QueueDiffers", "RabbitMqBus"]
