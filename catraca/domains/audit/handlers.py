"""Adds every event to the audit log."""

from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Db, audit

handles = EventHandlers[()]("audit_log_queue")


@handles.anything
async def log_event(db: Db, message: Message) -> None:
    """Ids only: the log cannot be deleted, and personal data must stay erasable."""
    headers = message.headers
    data = {"event_id": message.id, "seq": headers.seq, "round": headers.round}
    await audit.record(
        db,
        actor_id=None,
        action=message.key,
        subject_kind=message.key.partition(".")[0],
        subject_id=headers.aggregate_id or message.id,
        data={name: value for name, value in data.items() if value is not None},
    )
