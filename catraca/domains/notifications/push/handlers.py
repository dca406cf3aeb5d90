"""Sends web pushes."""

from catraca.domains.notifications.push.service import send_push
from catraca.events import PushDue
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Db
from catraca.platform.web_push import Pusher

# Without a pusher (no contact in the settings) events are acknowledged and nothing is sent.
handles = EventHandlers[Pusher | None]("notification_push_queue")


@handles(PushDue)
async def push(db: Db, event: PushDue, message: Message, pusher: Pusher | None) -> None:
    if pusher is not None:
        await send_push(db, pusher, event)
