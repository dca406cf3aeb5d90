"""The interface of a bus, implemented on RabbitMQ (`rabbitmq`) and PostgreSQL (`postgres`)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from catraca.platform.bus.message import Delivery, Message
from catraca.platform.bus.topology import Queue
from catraca.platform.database import Db, Row
from catraca.platform.errors import Away


class BusAway(Away):
    """The bus is unavailable: pause and retry. A published message may or may not have arrived."""


class PublishFailed(Exception):
    """The bus answered and refused the message."""


class Unroutable(PublishFailed):
    """No queue is bound to the key: it was removed on the broker, since start-up refuses such a topology."""


class QueueFull(PublishFailed):
    """A queue bound to the key is full; other queues may have their copy."""


class Subscription(Protocol):
    """One consumer of one queue. It holds at most `queue.prefetch` deliveries."""

    async def next(self, limit: int) -> list[Delivery]:
        """Wait for a delivery, and return up to `limit` that are available. Empty after `stop_taking`."""
        ...

    async def admit(self, db: Db, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """In the handler's transaction: return the deliveries to apply, in the given order.

        The others were applied before, or have lapsed. A queue without an inbox (`queue.remembers` is
        False) returns all that have not lapsed.
        """
        ...

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge, after the commit: these are not delivered again."""
        ...

    async def retry(self, delivery: Delivery, *, delay_seconds: float, reason: str) -> None:
        """Deliver it again later, to this queue only, with one more retry and its reason in the headers."""
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Send it to the queue's dead-letter exchange; without one, give it back."""
        ...

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return these to the queue at once, for another consumer."""
        ...

    def stop_taking(self) -> None:
        """End the deliveries: `next` returns nothing more, and waiting deliveries are given back."""
        ...

    async def close(self) -> None:
        """Give back all held deliveries and end the subscription."""
        ...


class Transport(Protocol):
    async def declare(self) -> None:
        """Declare the missing queues and bindings; raises BusAway."""
        ...

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        """Publish with confirms; return None, BusAway, Unroutable or QueueFull for each message.

        Messages of one aggregate are sent in the given order. After a failure the rest of the aggregate is
        not sent and gets the same error.
        """
        ...

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        """Publish messages that may be dropped and must not be late: no confirm, no error."""
        ...

    async def subscribe(self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]) -> Subscription:
        """Consume through any outage; each (re)start waits until `when_ready` is true."""
        ...

    async def depths(self) -> Mapping[str, int]:
        """The number of waiting messages in each live queue; raises BusAway."""
        ...

    async def retrying(self) -> Mapping[str, int]:
        """The number of messages that wait for a retry, by retry queue; raises BusAway."""
        ...

    async def is_up(self) -> bool: ...

    async def close(self) -> None: ...


@runtime_checkable
class SharesDatabase(Protocol):
    """A transport whose queues are in the outbox's database, so that publishing moves rows."""

    async def take_over(self, db: Db, events: Sequence[Row]) -> list[Exception | None]:
        """Move these outbox rows (`outbox.lock_unsent`) to their queues; returns what `publish` does."""
        ...
