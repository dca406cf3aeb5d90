"""Notifications: numbered per user without gaps, read over HTTP, sent over sockets and by web push."""

from catraca.domains.notifications.messages.service import PERSONAL_DATA, Notifier
from catraca.domains.notifications.messages.store import INVARIANTS, prune_notifications
from catraca.domains.notifications.model import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL
from catraca.domains.notifications.push.service import DEVICE_DATA, prune_devices
from catraca.domains.notifications.sockets.hub import Hub
from catraca.domains.notifications.sockets.service import SocketCommands
from catraca.domains.notifications.sockets.store import prune_tickets

__all__ = [
    "DEVICE_DATA",
    "INVARIANTS",
    "NOTIFICATIONS_CHANNEL",
    "PERSONAL_DATA",
    "POSITIONS_CHANNEL",
    "Hub",
    "Notifier",
    "SocketCommands",
    "prune_devices",
    "prune_notifications",
    "prune_tickets",
]
