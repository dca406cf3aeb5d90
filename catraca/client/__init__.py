"""A Python client of Catraca: calls that are retried, and a socket that reconnects.

    from catraca.client import Client, Refused

    async with Client("http://127.0.0.1:8000", token=token) as catraca:
        ride = await catraca.rides.request(pickup_lat=-12.9777, pickup_lon=-38.5016)
        async with catraca.live(since=last_seq, acknowledge=True) as live:
            async for message in live:
                print(message.seq, message.type, message.data)

Every change is sent with an idempotency key, and retried with the same key when the network or the server
fails, so it happens once. A refusal of the server raises `Refused`; no answer in time raises `Unreachable`.
Each message is delivered once and in order, also after lost connections.

The client imports nothing else of Catraca.
"""

from catraca.client.client import Client
from catraca.client.errors import ClientFailure, Gap, LiveEnded, Refused, Unreachable
from catraca.client.live import Live
from catraca.client.models import (
    Accepted,
    Appointment,
    AppointmentPage,
    Changes,
    Community,
    CommunityPage,
    CommunityRide,
    Hold,
    Marked,
    NewShare,
    Notification,
    NotificationPage,
    Offer,
    Offers,
    Person,
    Pings,
    Place,
    Position,
    Quote,
    RejectedPing,
    Ride,
    RidePage,
    Service,
    ServicePage,
    Share,
    Skipped,
    Slot,
    SlotPage,
    Standing,
    Trip,
    TripDriver,
)
from catraca.client.values import Message, Ping, Question

__all__ = [
    "Accepted",
    "Appointment",
    "AppointmentPage",
    "Changes",
    "Client",
    "ClientFailure",
    "Community",
    "CommunityPage",
    "CommunityRide",
    "Gap",
    "Hold",
    "Live",
    "LiveEnded",
    "Marked",
    "Message",
    "NewShare",
    "Notification",
    "NotificationPage",
    "Offer",
    "Offers",
    "Person",
    "Ping",
    "Pings",
    "Place",
    "Position",
    "Question",
    "Quote",
    "Refused",
    "RejectedPing",
    "Ride",
    "RidePage",
    "Service",
    "ServicePage",
    "Share",
    "Skipped",
    "Slot",
    "SlotPage",
    "Standing",
    "Trip",
    "TripDriver",
    "Unreachable",
]
