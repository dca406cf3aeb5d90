"""Messages and deliveries, the same on both buses."""

import math
from collections.abc import Iterable
from typing import Self
from uuid import UUID

import msgspec
from msgspec.structs import replace


class Headers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """No personal data: headers are shown in lists, logs and the broker's own pages."""

    aggregate_id: UUID | None = None
    seq: int = 0
    round: int | None = None
    version: int = 1
    trace: str | None = None
    # Counts message faults only; the broker's own count also rises with every deploy.
    retries: int = 0
    # The reason of the latest retry, as a code.
    retry_reason: str | None = None
    # When it was published, in milliseconds since 1970, to measure latency.
    sent_at: int | None = None
    # Of a dead letter: the queue in which it failed, and the reason as a code.
    queue: str | None = None
    reason: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the id of the event; consumers ignore repeats by it."""

    id: UUID
    exchange: str
    key: str
    body: bytes
    headers: Headers = msgspec.field(default_factory=Headers)
    # Only to this queue, instead of all queues bound to the key.
    queue: str | None = None

    def with_headers(self, **changes: object) -> Self:
        return replace(self, headers=replace(self.headers, **changes))

    def again(self, reason: str) -> Self:
        """The same message, for one more retry."""
        return self.with_headers(retries=self.headers.retries + 1, retry_reason=reason)


class Delivery(msgspec.Struct, eq=False, kw_only=True):
    """A message that a consumer holds until it is done, retried, dead-lettered or given back."""

    queue: str
    message: Message
    # The transport's own id.
    tag: int
    # Why it can never be handled: a foreign message, or one that reached the delivery limit.
    unreadable: str | None = None
    # When a transient message expires, by this machine's monotonic clock.
    stale_at: float = math.inf
    # True after the transport took it back: another consumer may have it, so it must not be acknowledged.
    lapsed: bool = False


def each_once(deliveries: Iterable[Delivery], ids: set[UUID]) -> list[Delivery]:
    """The first delivery of each of these messages, in the given order."""
    left = set(ids)
    chosen: list[Delivery] = []
    for delivery in deliveries:
        if delivery.message.id in left:
            left.discard(delivery.message.id)
            chosen.append(delivery)
    return chosen
