"""Wirings that would lose events, and the real command with one of them.

`python -m tests.support.wirings "unbound key" serve all` is `catraca serve all` with that fault.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import catraca.events
from catraca.platform.bus import Queue
from catraca.platform.event import Event, key_of


class Whispered(Event, frozen=True, kw_only=True, tag="location.driver.whispered"):
    """An exchange has its key, but no queue is bound to it."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: UUID


def _unbound_key() -> None:
    catraca.events.EVENTS = (*catraca.events.EVENTS, Whispered)
    topology = catraca.events.TOPOLOGY
    keys = (*topology.exchanges[Whispered.exchange], key_of(Whispered))
    catraca.events.TOPOLOGY = replace(topology, exchanges={**topology.exchanges, Whispered.exchange: keys})


def _unconsumed_queue() -> None:
    _add(Queue(name="abandoned_queue", binds=("user.*",), role="housekeeper", does="Nothing."))


def _unknown_role() -> None:
    _add(Queue(name="abandoned_queue", binds=("user.*",), role="plumber", does="Nothing."))


def _dead_letter_cycle() -> None:
    _change("dead_letter_queue", dead_letters_to="dlx")


def _prefetch_below_batch() -> None:
    _change("audit_log_queue", prefetch=99)


def _add(queue: Queue) -> None:
    topology = catraca.events.TOPOLOGY
    catraca.events.TOPOLOGY = replace(topology, queues=(*topology.queues, queue))


def _change(name: str, **changes: object) -> None:
    topology = catraca.events.TOPOLOGY
    queues = (replace(one, **changes) if one.name == name else one for one in topology.queues)
    catraca.events.TOPOLOGY = replace(topology, queues=tuple(queues))


FAULTS: dict[str, Callable[[], None]] = {
    "unbound key": _unbound_key,
    "unconsumed queue": _unconsumed_queue,
    "unknown role": _unknown_role,
    "dead-letter cycle": _dead_letter_cycle,
    "prefetch below batch": _prefetch_below_batch,
}

if __name__ == "__main__":
    from catraca.cli import app

    FAULTS[sys.argv[1]]()
    app(sys.argv[2:])
