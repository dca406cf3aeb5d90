"""Notifications: what each person is told, numbered without a gap, read over HTTP or sent over a socket."""

from catraca.domains.notifications.model import CHANNEL, POSITIONS_CHANNEL, Notification
from catraca.domains.notifications.service.hub import Hub
from catraca.domains.notifications.service.personal import PERSONAL_DATA
from catraca.domains.notifications.service.speaking import Desk
from catraca.domains.notifications.service.telling import Teller
from catraca.domains.notifications.store.notifications import INVARIANTS
from catraca.domains.notifications.store.notifications import prune as prune_notifications
from catraca.domains.notifications.store.tickets import prune_tickets

__all__ = [
    "CHANNEL",
    "INVARIANTS",
    "PERSONAL_DATA",
    "POSITIONS_CHANNEL",
    "Desk",
    "Hub",
    "Notification",
    "Teller",
    "prune_notifications",
    "prune_tickets",
]
