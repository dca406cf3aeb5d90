"""The catalogue as a page: `docs/events.md`."""

from collections.abc import Iterable, Sequence

import msgspec

from catraca.events import TOPOLOGY
from catraca.events.asyncapi import header_fields
from catraca.events.catalogue import Entry, catalogue, example_of, fields_of, says_of, unpublished
from catraca.events.live import NOTICES, Notice
from catraca.platform.bus.topology import Queue

OPENING = """\
# Events

The events that Catraca publishes, one message each. This page is generated: `catraca events --format
markdown` prints it, `catraca events --format asyncapi` prints the same as an AsyncAPI 3.0 document, and
`catraca events` as a table.

An event is published if and only if its change has committed: after the earlier events of its aggregate
(`x-seq`), to every queue bound to its key. It may arrive more than once; Catraca's own consumers apply it
once. A new optional field may be added at any time; a field that changes its meaning raises `x-version`.
"""
PLANNED = """\
The consumer of a planned queue does not exist yet: the queue is neither declared nor filled. `*` stands for
one word.
"""


def page() -> str:
    entries = catalogue()
    return "\n".join(
        [OPENING, *map(_section, entries), _notices(), _headers(), _queues(TOPOLOGY.queues), _planned_keys()]
    )


def _section(entry: Entry) -> str:
    example = msgspec.json.format(entry.example, indent=2).decode()
    publishers, version = " and ".join(entry.publishers), entry.kind.version
    queues = [(f"`{one.name}`", _role(one), one.does) for one in entry.queues]
    return "\n".join(
        [
            f"## {entry.key}\n",
            f"{entry.says}\n",
            f"Published to `{entry.exchange}` by {publishers}; version {version}.\n",
            _table(("field", "type", "says"), [(f"`{f.name}`", f.type, f.says) for f in entry.fields]),
            f"```json\n{example}\n```\n",
            _table(("queue", "role", "does"), queues),
        ]
    )


def _notices() -> str:
    words = (
        "Notifications as devices get them: `{seq, type, data}`. [Notifications and the WebSocket](live.md)\n"
        "describes the socket.\n"
    )
    return "\n".join(["## Over the WebSocket\n", words, *map(_notice, NOTICES)])


def _notice(kind: type[Notice]) -> str:
    example = {"seq": 12, "type": kind.type, "data": example_of(kind)}
    return "\n".join(
        [
            f"### `{kind.type}` to {kind.to}\n",
            f"{says_of(kind)}\n",
            _table(("field", "type", "says"), [(f"`{f.name}`", f.type, f.says) for f in fields_of(kind)]),
            f"```json\n{msgspec.json.format(msgspec.json.encode(example), indent=2).decode()}\n```\n",
        ]
    )


def _role(queue: Queue) -> str:
    return f"{queue.role} (planned)" if queue.planned else queue.role


def _headers() -> str:
    rows = [(f"`{field.name}`", field.type, field.says) for field in header_fields()]
    words = (
        "Beside the body travels the event's id (`message_id`), and of these headers what there is to say:\n"
    )
    return "\n".join(["## Headers\n", words, _table(("header", "type", "says"), rows)])


def _queues(queues: Sequence[Queue]) -> str:
    rows = [(f"`{q.name}`", " ".join(f"`{bind}`" for bind in q.binds), _role(q), q.does) for q in queues]
    return "\n".join(["## Queues\n", PLANNED, _table(("queue", "bound to", "role", "does"), rows)])


def _planned_keys() -> str:
    rows = [
        (f"`{exchange}`", " ".join(f"`{key}`" for key in keys)) for exchange, keys in unpublished().items()
    ]
    return "\n".join(
        ["## Keys that are planned\n", _table(("exchange", "keys that are not published yet"), rows)]
    )


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
