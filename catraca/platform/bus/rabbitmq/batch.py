"""One call of `publish`: aggregates side by side, each one's messages one after another."""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from uuid import UUID

from aiormq.exceptions import DeliveryError, PublishError

from catraca.platform.bus.message import Message
from catraca.platform.bus.rabbitmq.confirming import Confirmation, ConfirmChannel
from catraca.platform.bus.rabbitmq.encoding import Address
from catraca.platform.bus.transport import BusAway, QueueFull, Unroutable

Outcome = Exception | None
# One aggregate's messages, by their places in the call; the first is in flight or next.
Lane = deque[int]


class Batch:
    """The messages of one call, each with its outcome in the end."""

    def __init__(
        self,
        messages: Sequence[Message],
        to: Address | None,
        *,
        exchanges: Collection[str],
        queues: Collection[str],
        room: asyncio.Semaphore,
    ) -> None:
        # Until the broker has spoken, nothing is sent.
        self.outcomes: list[Outcome] = [BusAway("not tried")] * len(messages)
        self._messages = messages
        self._to = to
        self._exchanges = exchanges
        self._queues = queues
        self._room = room
        self._rooms_taken = 0
        self._progress = asyncio.Event()
        self._in_flight: dict[Confirmation, Lane] = {}
        lanes: dict[UUID, Lane] = {}
        for index, message in enumerate(messages):
            lanes.setdefault(_lane_of(message), deque()).append(index)
        self._ready = deque(lanes.values())

    async def run(self, channel: ConfirmChannel) -> None:
        """Send everything and wait for the answers; raises `BusAway` when the channel is lost."""
        lost = channel.tell_when_lost(self._progress)
        try:
            while self._ready or self._in_flight:
                self._progress.clear()
                if lost.done():
                    raise BusAway("the channel was lost")
                if taken := await self._take(channel):
                    await self._send(channel, taken)
                elif self._in_flight:
                    await self._progress.wait()
        finally:
            lost.cancel()

    def give_up(self, error: BusAway) -> None:
        """Answer this for whatever has no other answer."""
        self.outcomes = [error if isinstance(outcome, BusAway) else outcome for outcome in self.outcomes]

    def let_go(self) -> None:
        """Whether it ended well or not: what is still in flight is nobody's any more."""
        for confirmation in self._in_flight:
            confirmation.remove_done_callback(self._confirmed)
            confirmation.cancel()
        self._in_flight.clear()
        while self._rooms_taken:
            self._leave_room()

    async def _take(self, channel: ConfirmChannel) -> list[tuple[Lane, bytes]]:
        """What may go now, encoded; waits for room only when there is nothing else to do."""
        taken: list[tuple[Lane, bytes]] = []
        while self._ready and (not self._room.locked() or not (taken or self._in_flight)):
            lane = self._ready.popleft()
            message = self._messages[lane[0]]
            frames = self._encoded(channel, message)
            if frames is None:
                self._settle(lane, Unroutable(message.key))
                continue
            await self._room.acquire()
            self._rooms_taken += 1
            taken.append((lane, frames))
        return taken

    def _encoded(self, channel: ConfirmChannel, message: Message) -> bytes | None:
        """None for what has no address: an exchange for which the broker would close the channel, say."""
        to = self._to
        if to is None and message.queue is not None:
            if message.queue not in self._queues:
                return None
            to = Address("", message.queue)
        if to is None and message.exchange and message.exchange not in self._exchanges:
            return None
        try:
            return channel.encode(message, to)
        except (ValueError, TypeError):  # such as a key beyond 255 bytes
            return None

    async def _send(self, channel: ConfirmChannel, taken: Sequence[tuple[Lane, bytes]]) -> None:
        ids = [str(self._messages[lane[0]].id) for lane, _ in taken]
        confirmations = await channel.send(ids, b"".join(frames for _, frames in taken))
        for (lane, _), confirmation in zip(taken, confirmations, strict=True):
            self._in_flight[confirmation] = lane
            confirmation.add_done_callback(self._confirmed)

    def _confirmed(self, confirmation: Confirmation) -> None:
        lane = self._in_flight.pop(confirmation)
        self._leave_room()
        self._settle(lane, _outcome_of(confirmation, self._messages[lane[0]]))
        self._progress.set()

    def _settle(self, lane: Lane, outcome: Outcome) -> None:
        """After a failure the rest of the lane is not tried: later news must not arrive before earlier."""
        if outcome is None:
            self.outcomes[lane.popleft()] = None
            if lane:
                self._ready.append(lane)
        else:
            for index in lane:
                self.outcomes[index] = outcome

    def _leave_room(self) -> None:
        self._rooms_taken -= 1
        self._room.release()


def _lane_of(message: Message) -> UUID:
    """What is addressed to one queue keeps no order with the rest of its aggregate."""
    return message.id if message.queue is not None else message.headers.aggregate_id or message.id


def _outcome_of(confirmation: Confirmation, message: Message) -> Outcome:
    if confirmation.cancelled():
        return BusAway("the channel was lost")
    error = confirmation.exception()
    if error is None:
        return None
    if isinstance(error, PublishError):
        return Unroutable(message.key)
    if isinstance(error, DeliveryError):
        return QueueFull(message.key)
    return BusAway(type(error).__name__)
