"""Adds every event to the audit log."""

from catraca.platform.bus import Message, message_handlers
from catraca.platform.database import audit


def _entry(message: Message) -> audit.Entry:
    """Ids only: the log cannot be deleted, and personal data must stay erasable."""
    headers = message.headers
    data = {"event_id": message.id, "seq": headers.seq, "round": headers.round}
    return audit.Entry(
        actor_id=None,
        action=message.key,
        subject_kind=message.key.partition(".")[0],
        subject_id=headers.aggregate_id or message.id,
        request_id=headers.trace,
        data={name: value for name, value in data.items() if value is not None},
    )


handles = message_handlers("audit_log_queue", prepare=_entry, write=audit.insert_entries)
