"""Notifications: numbered per user without gaps, read over HTTP, sent over sockets and by web push."""

from catraca.domains.notifications.messages.service import PERSONAL_DATA, Notifier
from catraca.domains.notifications.messages.store import INVARIANTS
from catraca.domains.notifications.model import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL
from catraca.domains.notifications.push.service import DEVICE_DATA
from catraca.domains.notifications.sockets.hub import Hub
from catraca.domains.notifications.sockets.service import SocketCommands

__all__ = [
    "DEVICE_DATA",
    "INVARIANTS",
    "NOTIFICATIONS_CHANNEL",
    "PERSONAL_DATA",
    "POSITIONS_CHANNEL",
    "Hub",
    "Notifier",
    "SocketCommands",
]
