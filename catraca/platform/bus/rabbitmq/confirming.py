"""A channel on which the broker confirms each message, and none waits for the one before it."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from aiormq.channel import Channel

from catraca.platform.bus.message import Message
from catraca.platform.bus.rabbitmq.connection import when_closed, write
from catraca.platform.bus.rabbitmq.encoding import Address, encode

Confirmation = asyncio.Future[Any]


class ConfirmChannel:
    """Writes many messages at once and hands out a future for each one's confirmation.

    aiormq would go message by message, each with a task, a lock and three context managers, at four times the
    cost. The books are kept here as it keeps them itself, and it resolves the confirmations.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._writing = asyncio.Lock()
        # By message id: a returned message is known by nothing else, so none may be in flight twice.
        self._in_flight: dict[str, Confirmation] = {}

    def tell_when_lost(self, lost: asyncio.Event) -> asyncio.Future[Any]:
        """Set the event when the channel is lost; cancel the answer when that no longer matters."""
        return when_closed(self.channel, lost.set)

    def encode(self, message: Message, to: Address | None) -> bytes:
        frame_bytes = self.channel.connection.connection_tune.frame_max
        return encode(message, self.channel.number, frame_bytes=frame_bytes, to=to)

    async def send(self, ids: Sequence[str], payload: bytes) -> list[Confirmation]:
        """Write these messages, encoded one after another; in the same order, what will be known of each."""
        async with self._writing:
            for message_id in ids:
                if twin := self._in_flight.get(message_id):
                    await asyncio.wait([twin])
            await write(self.channel, payload)
            # Nothing waits from here on: the broker numbers its answers in the order of writing.
            return [self._expect(message_id) for message_id in ids]

    def _expect(self, message_id: str) -> Confirmation:
        channel, confirmation = self.channel, asyncio.get_running_loop().create_future()
        channel.delivery_tag += 1
        cast(Any, channel).confirmations[channel.delivery_tag] = confirmation
        channel.message_id_delivery_tag[message_id] = channel.delivery_tag
        self._in_flight[message_id] = confirmation

        def forget(_: Confirmation) -> None:
            self._in_flight.pop(message_id, None)
            channel.message_id_delivery_tag.pop(message_id, None)

        confirmation.add_done_callback(forget)
        return confirmation
