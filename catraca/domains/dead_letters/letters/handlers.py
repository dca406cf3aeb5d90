"""Stores messages that died in any queue."""

from catraca.domains.dead_letters.letters import store
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Db

handles = EventHandlers[()]("dead_letter_queue")
sign_up_handles = EventHandlers[()]("raffle_dlq")


@handles.anything
@sign_up_handles.anything
async def store_dead_letter(db: Db, message: Message) -> None:
    await store.insert_dead_letter(db, message)
