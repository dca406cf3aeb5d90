"""What a bus can do, whichever carries it: RabbitMQ (`rabbitmq`) or PostgreSQL (`postgres`)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from catraca.platform.bus.message import Delivery, Message
from catraca.platform.bus.topology import Queue
from catraca.platform.database import Db, Row
from catraca.platform.errors import Away


class BusAway(Away):
    """The bus cannot be asked right now: pause and try again. What was sent may or may not have arrived."""


class PublishFailed(Exception):
    """The bus answered, and did not take the message."""


class Unroutable(PublishFailed):
    """No queue is bound to the key: somebody removed it, for start-up refuses such a topology."""


class QueueFull(PublishFailed):
    """A queue it is bound for is full and refuses; others may have taken their copy."""


class Subscription(Protocol):
    """One consumer of one queue. Deliveries are bounded by the queue's prefetch."""

    async def next(self, limit: int) -> list[Delivery]:
        """Wait for at least one delivery; up to `limit` that are there. Empty when told to stop."""
        ...

    async def admit(self, db: Db, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """In the handler's transaction: which of these are to be applied now, in the given order.

        The others were applied before, or are no longer ours. A queue that does not remember
        (`queue.remembers`) has no inbox: everything that is still ours is to be applied.
        """
        ...

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """After the commit: they will not be delivered again."""
        ...

    async def retry(self, delivery: Delivery, *, delay_seconds: float, reason: str) -> None:
        """Deliver it again later, to this queue alone, with one more retry on its headers and why."""
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Send it where this queue's dead letters go; if that is nowhere, give it back."""
        ...

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let another consumer have them, now."""
        ...

    def stop_taking(self) -> None:
        """No new deliveries: `next` hands out nothing more, and what waits unhandled is given back."""
        ...

    async def close(self) -> None:
        """Give back whatever is still in hand and let go."""
        ...


class Transport(Protocol):
    async def declare(self) -> None:
        """Make every live queue and binding that is missing; raises BusAway."""
        ...

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        """Publish with confirms, side by side; for each message None, or BusAway, Unroutable, QueueFull.

        Messages of one aggregate go one after another, in the given order; after a failure the rest of that
        aggregate is not tried and gets the same answer.
        """
        ...

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        """Publish what may be dropped and must not be late: no confirm, no error."""
        ...

    async def subscribe(self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]) -> Subscription:
        """Consume from now on, through any outage; `when_ready` is asked before each (re)start."""
        ...

    async def depths(self) -> Mapping[str, int]:
        """How many messages wait in each live queue; raises BusAway."""
        ...

    async def retrying(self) -> Mapping[str, int]:
        """How many messages wait for another try, by the name of where they wait; raises BusAway."""
        ...

    async def is_up(self) -> bool: ...

    async def close(self) -> None: ...


@runtime_checkable
class SharesDatabase(Protocol):
    """A transport whose queues are in the outbox's own database, so that sending is moving."""

    async def take_over(self, db: Db, events: Sequence[Row]) -> list[Exception | None]:
        """Move these rows of the outbox (`outbox.lock_unsent`) to their queues; outcomes as of `publish`."""
        ...
