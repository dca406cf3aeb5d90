"""Translates messages to AMQP and back. Decoding never fails: a foreign message is marked `unreadable`."""

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import msgspec
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from catraca.platform.bus.message import Delivery, Headers, Message
from catraca.platform.bus.rabbitmq.declarations import RETRY_NAME
from catraca.platform.bus.rabbitmq.frame_filter import UNREADABLE
from catraca.platform.bus.topology import Queue, milliseconds
from catraca.platform.clock import monotonic_seconds

CONTENT_TYPE = "application/json"
TRANSIENT, PERSISTENT = 1, 2
# When a message was published, in milliseconds since 1970.
SENT_AT = "x-sent-at"

_NAMES = {f"x-{field.replace('_', '-')}": field for field in Headers.__struct_fields__}
_Table = Mapping[str, Any]
_NO_HEADERS: _Table = {}


@dataclass(frozen=True, slots=True)
class Address:
    """An exchange and key other than the message's own, which then travel as headers."""

    exchange: str
    key: str


def properties_of(message: Message, *, moved: bool = False) -> Basic.Properties:
    """The properties of a message that must arrive; `moved` if it goes to another address than its own."""
    return Basic.Properties(
        message_id=str(message.id),
        content_type=CONTENT_TYPE,
        delivery_mode=PERSISTENT,
        headers=_table_of(message, moved=moved),
    )


def transient_properties_of(message: Message, queue: Queue, sent_at: float) -> Basic.Properties:
    """The properties of a message that expires in this queue."""
    assert queue.transient_seconds is not None
    return Basic.Properties(
        message_id=str(message.id),
        content_type=CONTENT_TYPE,
        delivery_mode=TRANSIENT,
        expiration=str(milliseconds(queue.transient_seconds)),
        headers=_table_of(message, moved=True) | {SENT_AT: milliseconds(sent_at)},
    )


def _table_of(message: Message, *, moved: bool) -> dict[str, Any]:
    headers = message.headers
    table: dict[str, Any] = {"x-version": headers.version}
    if headers.seq:  # only events have one
        table["x-seq"] = headers.seq
    if headers.aggregate_id is not None:
        table["x-aggregate-id"] = str(headers.aggregate_id)
    if headers.round is not None:
        table["x-round"] = headers.round
    if headers.trace is not None:
        table["x-trace"] = headers.trace
    if headers.retries:
        table["x-retries"] = headers.retries
    if headers.retry_reason is not None:
        table["x-retry-reason"] = headers.retry_reason
    if headers.sent_at is not None:
        table[SENT_AT] = headers.sent_at
    if headers.queue is not None:
        table["x-queue"] = headers.queue
    if headers.reason is not None:
        table["x-reason"] = headers.reason
    if moved:
        table["x-exchange"] = message.exchange
        table["x-key"] = message.key
    return table


def decode(queue: Queue, arrived: DeliveredMessage) -> Delivery:
    """Never fails. In a queue without dead letters nothing is unreadable: the message is kept as it is."""
    properties = arrived.header.properties
    table: _Table = properties.headers or _NO_HEADERS
    message_id, headers, fault = _id_of(properties.message_id), _headers_of(table), None
    if message_id is None:
        fault = "bad_id" if properties.message_id else "missing_id"
        message_id = _made_id(queue.name, arrived.body)
    if headers is None:
        headers, fault = Headers(), "bad_headers"
    if death := _death_by_broker(table):
        headers = msgspec.structs.replace(headers, queue=_text(death, "queue"), reason=_text(death, "reason"))
    if fault is not None and queue.dead_letters_to is None:
        if headers.reason is None:
            headers = msgspec.structs.replace(headers, queue=queue.name, reason=fault)
        fault = None
    exchange, key = _origin(arrived, table, death)
    return Delivery(
        queue=queue.name,
        message=Message(id=message_id, exchange=exchange, key=key, body=arrived.body, headers=headers),
        tag=arrived.delivery_tag or 0,
        unreadable=fault,
        stale_at=_stale_at(queue, table),
    )


def _stale_at(queue: Queue, table: _Table) -> float:
    """By the monotonic clock. A publisher whose clock is fast does not make its message last longer."""
    if queue.transient_seconds is None:
        return math.inf
    sent_at = table.get(SENT_AT)
    age_seconds = time.time() - sent_at / 1000 if isinstance(sent_at, int) else 0
    return monotonic_seconds() + queue.transient_seconds - max(0, age_seconds)


def _id_of(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def _made_id(queue: str, body: bytes) -> UUID:
    """An id for a message without one: the same for every delivery, so that it is stored once."""
    return UUID(bytes=hashlib.sha256(queue.encode() + b"\0" + body).digest()[:16], version=5)


def _headers_of(table: _Table) -> Headers | None:
    try:
        known = {field: table[name] for name, field in _NAMES.items() if name in table}
        headers = msgspec.convert(known, Headers)
    except (msgspec.ValidationError, TypeError, OverflowError):
        return None
    return None if UNREADABLE in table or headers.retries < 0 else headers


def _death_by_broker(table: _Table) -> _Table | None:
    """The latest death that the broker noted, except the end of a retry delay."""
    deaths = table.get("x-death")
    for death in cast(list[Any], deaths) if isinstance(deaths, list) else ():
        if isinstance(death, dict) and not RETRY_NAME.fullmatch(_text(cast(_Table, death), "queue")):
            return cast(_Table, death)
    return None


def _origin(arrived: DeliveredMessage, table: _Table, death: _Table | None) -> tuple[str, str]:
    """The exchange and key it was first published with."""
    if isinstance(exchange := table.get("x-exchange"), str) and isinstance(key := table.get("x-key"), str):
        return exchange, key
    if death is not None:
        match death.get("routing-keys"):
            case [str(key), *_]:
                return _text(death, "exchange"), key
            case _:
                pass
    return arrived.exchange or "", arrived.routing_key or ""


def _text(table: _Table, name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) else ""
