"""Sends web pushes: each when its message is prepared, so that no transaction waits for a push service."""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from catraca.domains.notifications.push.service import Outcome, PushSender, record_outcome
from catraca.events import PushDue
from catraca.platform.bus import Message, QueueHandlers
from catraca.platform.bus.handlers import EventReader
from catraca.platform.database import Db
from catraca.platform.event import key_of


class Handled(NamedTuple):
    event: PushDue
    outcome: Outcome


_events = EventReader([PushDue])


async def _send(message: Message, sender: PushSender | None) -> Handled:
    event: PushDue = _events.read(message)
    # Without a sender (no contact in the settings) events are acknowledged and nothing is sent.
    if sender is None:
        return Handled(event, "not_needed")
    with structlog.contextvars.bound_contextvars(request_id=message.headers.trace):
        return Handled(event, await sender.send(event))


async def _record(db: Db, handled: Sequence[Handled], _sender: PushSender | None) -> None:
    for event, outcome in handled:
        await record_outcome(db, event, outcome)


handles = QueueHandlers[Handled, PushSender | None](
    queue="notification_push_queue",
    keys={key_of(PushDue)},
    prepare=_send,
    write=_record,
    check=_events.check,
)
