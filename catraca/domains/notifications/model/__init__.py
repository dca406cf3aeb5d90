"""Notifications as values, and what each event says to whom: pure, in the reader's own words."""

from catraca.domains.notifications.model.telling import people_of, tellings_of
from catraca.domains.notifications.model.values import (
    CHANNEL,
    MAX_SEQ,
    POSITIONS_CHANNEL,
    TICKET_SECONDS,
    Happened,
    Notification,
    Telling,
    World,
    write_notice,
)

__all__ = [
    "CHANNEL",
    "MAX_SEQ",
    "POSITIONS_CHANNEL",
    "TICKET_SECONDS",
    "Happened",
    "Notification",
    "Telling",
    "World",
    "people_of",
    "tellings_of",
    "write_notice",
]
