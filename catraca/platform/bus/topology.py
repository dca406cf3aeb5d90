"""Exchanges, queues and their consumers as data; checks refuse a topology that loses messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

ExchangeKind = Literal["topic", "direct", "fanout"]

DEAD_LETTER_EXCHANGE = "dlx"
DEAD_LETTER_QUEUE = "dead_letter_queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryQueue:
    """The own retry queue of a queue that does not use the shared ones.

    Its name contains the delay: the delay of a queue cannot be changed, so another delay is another queue.
    """

    name: str
    exchange: str
    delay_seconds: float
    # The number of retries.
    times: int
    # The exchange and key by which a message returns.
    returns_by: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Durable and without a time limit, unless `transient_seconds` is set: then old messages are dropped."""

    name: str
    binds: tuple[str, ...]
    role: str
    does: str
    # Messages per transaction: many for cheap handlers, one if latency matters.
    batch: int = 1
    # How long a batch waits to become full.
    fill_seconds: float = 0
    # Messages that one process prepares in parallel.
    processors: int = 1
    # Transactions that one process runs in parallel.
    concurrency: int = 4
    # Messages that one process holds, in work and waiting.
    prefetch: int = 16
    # The handlers' statements have one good plan each, so PostgreSQL need not plan them for every call.
    plans_once: bool = False
    # Only one consumer of all processes is active, so it gets the events of an aggregate in order.
    single_active: bool = False
    # The inbox ignores repeats. Off only for handlers that are safe to repeat by themselves.
    remembers: bool = True
    max_length: int = 1_000_000
    # The exchange for messages that cannot be handled. None: they stay in the queue.
    dead_letters_to: str | None = DEAD_LETTER_EXCHANGE
    # The key of its dead letters there. None: the key with which they were published.
    dead_letter_key: str | None = None
    transient_seconds: float | None = None
    retries_in: RetryQueue | None = None

    def dead_letter_key_of(self, key: str) -> str:
        """The key of the dead letter of a message that was published with `key`."""
        return self.dead_letter_key or key


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """`exchanges` maps each exchange to its keys; an exchange without keys is a fanout, any other a topic."""

    exchanges: Mapping[str, tuple[str, ...]]
    queues: tuple[Queue, ...]
    # Exchanges that are direct: a queue is bound to the key itself, not to a pattern.
    direct: frozenset[str] = frozenset()
    # The delay of the first, second, ... retry of a message; after the last it is a dead letter.
    retry_delays_seconds: tuple[float, ...] = (1, 5, 25)
    # Ends crash loops only: a killed consumer counts as a delivery of every message it held.
    delivery_limit: int = 50
    _by_name: dict[str, Queue] = field(init=False, default_factory=dict[str, Queue])
    # Computed once, because they are needed for each message: bindings, and the queues of each key.
    _bound: dict[str, list[tuple[str, Queue]]] = field(
        init=False, default_factory=dict[str, list[tuple[str, Queue]]]
    )
    _routes: dict[tuple[str, str], list[Queue]] = field(
        init=False, default_factory=dict[tuple[str, str], list[Queue]]
    )

    def __post_init__(self) -> None:
        self._by_name.update((queue.name, queue) for queue in self.queues)
        for queue in self.queues:
            for exchange, pattern in self.bindings(queue):
                self._bound.setdefault(exchange, []).append((pattern, queue))
        for exchange, keys in self.exchanges.items():
            self._routes.update(((exchange, key), self._reached(exchange, key)) for key in keys)

    def queue(self, name: str) -> Queue:
        return self._by_name[name]

    def delays_of(self, queue: Queue) -> tuple[float, ...]:
        """The delay of the first, second, ... retry of a message of this queue."""
        own = queue.retries_in
        return self.retry_delays_seconds if own is None else (own.delay_seconds,) * own.times

    def kind_of(self, exchange: str) -> ExchangeKind:
        if exchange in self.direct:
            return "direct"
        return "topic" if self.exchanges.get(exchange) else "fanout"

    def bindings(self, queue: Queue) -> list[tuple[str, str]]:
        """(exchange, pattern) pairs: a pattern is bound where it matches a key; a fanout by its name."""
        return [
            (exchange, pattern)
            for pattern in queue.binds
            for exchange, keys in self.exchanges.items()
            if any(self._matches(exchange, pattern, key) for key in keys)
            or (pattern == exchange and not keys)
        ]

    def route(self, exchange: str, key: str) -> list[Queue]:
        """The live queues that a message reaches, each once."""
        found = self._routes.get((exchange, key))
        return self._reached(exchange, key) if found is None else found

    def route_dead_letter(self, queue: Queue, key: str) -> list[Queue]:
        """The live queues that a dead letter of `queue` reaches, each once."""
        exchange = queue.dead_letters_to
        return [] if exchange is None else self.route(exchange, queue.dead_letter_key_of(key))

    def _reached(self, exchange: str, key: str) -> list[Queue]:
        found = {
            queue.name: queue
            for pattern, queue in self._bound.get(exchange, ())
            if self._matches(exchange, pattern, key)
        }
        return list(found.values())

    def _matches(self, exchange: str, pattern: str, key: str) -> bool:
        """True if a queue that is bound to `exchange` by `pattern` gets messages with `key`."""
        match self.kind_of(exchange):
            case "topic":
                return matches(pattern, key)
            case "direct":
                return pattern == key
            case "fanout":
                return True


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def delay_name(seconds: float) -> str:
    """The delay as part of a queue's name: `10s`, `1500ms`."""
    delay = milliseconds(seconds)
    return f"{delay // 1000}s" if delay % 1000 == 0 else f"{delay}ms"


class TopologyRefused(Exception):
    """The topology would lose messages or leave them unhandled; the text says what to change."""


def matches(pattern: str, key: str) -> bool:
    """AMQP topic patterns: words between dots, `*` for one word, `#` for any number."""
    return _matches(_words(pattern), _words(key))


def _words(text: str) -> list[str]:
    return text.split(".") if text else []


def _matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


def check_topology(
    topology: Topology, *, published: Mapping[str, str], handled: Mapping[str, Collection[str] | None]
) -> None:
    """Refuse a topology that would lose messages.

    `published` maps each key that is published to its exchange; `handled` maps each queue to the keys it has
    handlers for, or to None where it takes everything.
    """
    faults = [
        *_unbound(topology, published),
        *_unconsumed(topology, published, handled),
        *_misrouted_dead_letters(topology),
        *_mixed(topology),
        *_too_small(topology),
    ]
    if faults:
        raise TopologyRefused("\n".join(faults))


def _unbound(topology: Topology, published: Mapping[str, str]) -> Iterable[str]:
    for key, exchange in published.items():
        if key not in topology.exchanges.get(exchange, ()):
            yield f"{key} is published to {exchange}, which does not list it: add it to that exchange."
        elif not topology.route(exchange, key):
            yield f"{key} is published and no queue is bound to it: bind one, or do not publish it."
    for queue in topology.queues:
        for pattern in queue.binds:
            if not any(bound == pattern for _, bound in topology.bindings(queue)):
                yield f"{queue.name} is bound to {pattern}, which no exchange carries: correct the pattern."


def _unconsumed(
    topology: Topology, published: Mapping[str, str], handled: Mapping[str, Collection[str] | None]
) -> Iterable[str]:
    for queue in topology.queues:
        if queue.name not in handled:
            yield f"{queue.name} has no consumer and would only fill: give role {queue.role} its handlers."
        elif (keys := handled[queue.name]) is not None:
            for key, exchange in published.items():
                if queue in topology.route(exchange, key) and key not in keys:
                    yield f"{queue.name} gets {key} and has no handler for it: write one, or unbind the key."
    for name in handled:
        if name not in {queue.name for queue in topology.queues}:
            yield f"there are handlers for {name}, which is no queue: correct the name."


def _misrouted_dead_letters(topology: Topology) -> Iterable[str]:
    """Their keys must route dead letters to a queue, and never back to the queue in which they failed."""
    keys = sorted({key for listed in topology.exchanges.values() for key in listed})
    for queue in topology.queues:
        exchange = queue.dead_letters_to
        if exchange is None:
            continue
        if exchange not in topology.exchanges:
            yield f"dead letters of {queue.name} go to {exchange}, which is no exchange: correct the name."
        elif lost := {
            queue.dead_letter_key_of(key): None
            for key in keys
            if _gets(topology, queue, key) and not topology.route_dead_letter(queue, key)
        }:
            yield (
                f"dead letters of {queue.name} go to {exchange}, where no queue gets {', '.join(lost)}:"
                " bind one there."
            )
        elif any(queue in _dead_letter_path(topology, queue, key) for key in keys):
            yield (
                f"dead letters of {queue.name} come back to it by {exchange}: send them elsewhere, or"
                " nowhere."
            )


def _gets(topology: Topology, queue: Queue, key: str) -> bool:
    return any(queue in topology.route(exchange, key) for exchange in topology.exchanges)


def _dead_letter_path(topology: Topology, queue: Queue, key: str) -> list[Queue]:
    """Every queue that a message with this key reaches if it fails in `queue`, and in each queue after it."""
    found: list[Queue] = []
    failing = [(queue, key)]
    while failing:
        failed, key = failing.pop()
        fresh = [other for other in topology.route_dead_letter(failed, key) if other not in found]
        failing += [(other, failed.dead_letter_key_of(key)) for other in fresh]
        found += fresh
    return found


def _mixed(topology: Topology) -> Iterable[str]:
    """Transient messages are published without confirms; a durable queue would miss them unnoticed."""
    for exchange, keys in topology.exchanges.items():
        for key in keys:
            kinds = {queue.transient_seconds is None: queue.name for queue in topology.route(exchange, key)}
            if len(kinds) > 1:
                yield (
                    f"{key} goes to {kinds[False]}, which may drop it, and to {kinds[True]}, which may not:"
                    " give each a key of its own."
                )


def _too_small(topology: Topology) -> Iterable[str]:
    if not topology.retry_delays_seconds:
        yield "retry_delays_seconds is empty, and what fails is tried again at least once: give a delay."
    for queue in topology.queues:
        own = queue.retries_in
        if own is not None and topology.route(*own.returns_by) != [queue]:
            exchange, key = own.returns_by
            yield (
                f"retries of {queue.name} return by {exchange} as {key}, which does not lead to it alone:"
                " give it a key of its own."
            )
        if not topology.delays_of(queue) and queue.dead_letters_to is None:
            yield f"{queue.name} keeps what fails, and has no delay to try it again: give it one."
        if queue.prefetch < queue.batch:
            yield (
                f"{queue.name} holds {queue.prefetch} messages and wants batches of {queue.batch}, which"
                " could never fill: raise prefetch or lower batch."
            )
