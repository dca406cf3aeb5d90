"""Notices a consumer that the broker has silently forgotten: from here it looks like an idle one."""

from aiormq.exceptions import ChannelNotFoundEntity

from catraca.platform.bus.rabbitmq.declaring import count_messages
from catraca.platform.bus.rabbitmq.session import Session
from catraca.platform.bus.topology import Queue
from catraca.platform.bus.transport import BusAway


class Watch:
    """Over one session; `finds_it_dead` is asked every few seconds."""

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session = session
        self._queue = queue
        self._received = 0
        self._starved = False

    async def finds_it_dead(self) -> bool:
        session = self._session
        if not session.is_registered:
            return True
        if session.received != self._received or session.in_hand:
            self._received, self._starved = session.received, False
            return False
        try:
            messages, consumers = await count_messages(session.connection, self._queue.name)
        except BusAway as error:
            return isinstance(error.__cause__, ChannelNotFoundEntity)  # the queue is gone
        was_starved = self._starved
        # Of a single-active queue's consumers all but one starve by intent, and are not even counted.
        self._starved = messages > 0 and not self._queue.single_active
        # What waits at one look may have come a moment ago; at two, it should have reached us.
        return consumers == 0 or (was_starved and self._starved)
