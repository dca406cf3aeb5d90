"""Tickets for sockets, and the commands that clients send over them.

Commands of this domain need the session. Commands of other domains are given by the API role as one mapping
from message type to handler; they get the caller and the message's data.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from pydantic import ValidationError

from catraca.domains import rides
from catraca.domains.notifications.messages.store import acknowledge
from catraca.domains.notifications.model import MAX_SEQ
from catraca.domains.notifications.sockets import store
from catraca.domains.notifications.sockets.errors import MessageMalformed, TooManySubscriptions
from catraca.domains.notifications.sockets.hub import Hub
from catraca.domains.notifications.sockets.model import ClientMessage
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.auth import Principal
from catraca.platform.database import Database, Db

MAX_FOLLOWED_RIDES = 100
TICKET_LIFETIME = timedelta(seconds=30)

Data = Mapping[str, Any]
Reply = Mapping[str, object]
# Raises a refusal, or pydantic's `ValidationError` for malformed data.
Command = Callable[[Principal, Data], Awaitable[Reply]]


async def issue_ticket(db: Db, principal: Principal) -> tuple[str, datetime]:
    """Return a ticket that opens one socket as this principal, and when it expires."""
    ticket = secrets.token_urlsafe(32)
    return ticket, await store.insert_ticket(db, ticket, principal, lifetime=TICKET_LIFETIME)


async def use_ticket(db: Db, ticket: str) -> Principal | None:
    """Return the principal the ticket was issued to; None if it is unknown, used or expired."""
    return await store.use_ticket(db, ticket)


class _Acknowledgement(msgspec.Struct, frozen=True):
    seq: int


class _RideRef(msgspec.Struct, frozen=True):
    ride_id: UUID


class SocketCommands:
    def __init__(self, hub: Hub, database: Database, commands: Mapping[str, Command]) -> None:
        """`commands`: those of other domains, by message type."""
        self.hub = hub
        self._database = database
        self._own: dict[str, Callable[[Session, Data], Awaitable[Reply]]] = {
            "ack": self._acknowledge,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "ping": self._ping,
        }
        self._commands = commands

    async def run(self, session: Session, message: ClientMessage) -> Reply:
        """Return the reply. Raises a refusal; `MessageMalformed` for an unknown type or malformed data."""
        try:
            if own := self._own.get(message.type):
                return await own(session, message.data)
            if command := self._commands.get(message.type):
                return await command(session.principal, message.data)
        except ValidationError as error:
            raise MessageMalformed(reason="wrong_shape") from error
        raise MessageMalformed(reason="type_unknown")

    async def _acknowledge(self, session: Session, data: Data) -> Reply:
        seq = _convert(data, _Acknowledgement).seq
        if not 0 <= seq <= MAX_SEQ:
            raise MessageMalformed(reason="wrong_shape")

        async def work(db: Db) -> int:
            # Not beyond the last one sent on this socket: the rest went to another device.
            up_to, offer_ids = await acknowledge(db, session.user_id, min(seq, session.seq))
            if offer_ids:
                await rides.acknowledge_offers(db, offer_ids)
            return up_to

        return {"seq": await self._database.run(work)}

    async def _subscribe(self, session: Session, data: Data) -> Reply:
        ride_id = _convert(data, _RideRef).ride_id
        if len(session.rides) >= MAX_FOLLOWED_RIDES and ride_id not in session.rides:
            raise TooManySubscriptions(limit=MAX_FOLLOWED_RIDES)
        async with self._database.connection() as db:
            await rides.read_own_ride(
                db, ride_id, caller_id=session.user_id, sees_all=session.principal.has("operator")
            )
        self.hub.follow(session, ride_id)
        return {"ride_id": str(ride_id)}

    async def _unsubscribe(self, session: Session, data: Data) -> Reply:
        ride_id = _convert(data, _RideRef).ride_id
        self.hub.unfollow(session, ride_id)
        return {"ride_id": str(ride_id)}

    async def _ping(self, session: Session, data: Data) -> Reply:
        return {}


R = TypeVar("R")


def _convert(data: Data, kind: type[R]) -> R:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise MessageMalformed(reason="wrong_shape") from error
