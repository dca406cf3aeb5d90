"""What travels: an event's body with what both buses tell about it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

import msgspec


class Headers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Never personal data: headers are shown in lists, logs and the broker's own pages."""

    aggregate_id: UUID | None = None
    seq: int = 0
    round: int | None = None
    version: int = 1
    trace: str | None = None
    # Raised by ourselves, on message faults only; the broker's own count also rises with every deploy.
    retries: int = 0
    # Why the latest of them, as a code.
    retry_reason: str | None = None
    # When it was published, in milliseconds since 1970: to measure how long things take.
    sent_at: int | None = None
    # Of a dead letter: where it died, and why, as a code.
    queue: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`id` is the event's: whoever handles it remembers it, and so absorbs repeats."""

    id: UUID
    exchange: str
    key: str
    body: bytes
    headers: Headers = field(default_factory=Headers)
    # To this queue alone, instead of all that are bound to the key.
    queue: str | None = None

    def with_headers(self, **changes: object) -> Self:
        return replace(self, headers=msgspec.structs.replace(self.headers, **changes))

    def again(self, reason: str) -> Self:
        """The same, for one more try."""
        return self.with_headers(retries=self.headers.retries + 1, retry_reason=reason)


@dataclass(slots=True, eq=False, kw_only=True)
class Delivery:
    """A message in a consumer's hand, until it is done, retried, dead-lettered or given back."""

    queue: str
    message: Message
    # The transport's own name for it.
    tag: int
    # Why nobody can handle it, whoever tries: it is not a message of ours, or ended all who did.
    unreadable: str | None = None
    # When transient news becomes old, by this machine's monotonic clock.
    stale_at: float = math.inf
    # Set when the transport took it back: somebody else has it now, and acknowledging would be a lie.
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
