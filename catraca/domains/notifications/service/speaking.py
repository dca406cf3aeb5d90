"""What a client says over its socket: each kind of message is one verb, and is answered if it asks to be."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from pydantic import Field, TypeAdapter, ValidationError

from catraca.domains import location, rides
from catraca.domains.communities import Fences
from catraca.domains.location import PINGS_AT_ONCE, PingIn, PingsOut, StatusIn, StatusOut
from catraca.domains.notifications.errors import MessageMalformed, TooManySubscriptions
from catraca.domains.notifications.model import MAX_SEQ
from catraca.domains.notifications.service.hub import Hub
from catraca.domains.notifications.service.session import Session
from catraca.domains.notifications.store import notifications as store
from catraca.domains.people import UserId
from catraca.platform.clock import now
from catraca.platform.database import Database, Db
from catraca.platform.errors import Forbidden
from catraca.platform.redis_client import RedisClient

RIDES_FOLLOWED = 100

Data = Mapping[str, Any]
Answer = Mapping[str, object]


class Said(msgspec.Struct, frozen=True):
    """A client's message. `data` is read by whoever it is for."""

    type: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None


class _Ack(msgspec.Struct, frozen=True):
    seq: int


class _RideRef(msgspec.Struct, frozen=True):
    ride_id: UUID


_read_said = msgspec.json.Decoder(Said).decode
_pings = TypeAdapter(Annotated[list[PingIn], Field(min_length=1, max_length=PINGS_AT_ONCE)])
MESSAGE_ID_CHARACTERS = 64


def read_said(frame: str) -> Said:
    try:
        said = _read_said(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageMalformed(
            reason="wrong_shape" if isinstance(error, msgspec.ValidationError) else "malformed_json"
        ) from error
    if said.id is not None and len(said.id) > MESSAGE_ID_CHARACTERS:
        raise MessageMalformed(reason="text_too_long")
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Does what clients ask for over their sockets, for this process."""

    hub: Hub
    database: Database
    redis: RedisClient
    pings: location.PingDesk
    rules: location.PingRules
    fences: Fences

    async def do(self, session: Session, said: Said) -> Answer:
        """The answer to it; raises a refusal, and `MessageMalformed` for what is not understood."""
        verb = _VERBS.get(said.type)
        if verb is None:
            raise MessageMalformed(reason="type_unknown")
        return await verb(self, session, said.data)

    async def acknowledge(self, session: Session, data: Data) -> Answer:
        seq = _read(data, _Ack).seq
        if not 0 <= seq <= MAX_SEQ:
            raise MessageMalformed(reason="wrong_shape")

        async def work(db: Db) -> int:
            # Not beyond what this socket was sent: another device's news is not this one's to acknowledge.
            up_to, offer_ids = await store.acknowledge(db, session.user_id, min(seq, session.seq))
            if offer_ids:
                await rides.acknowledge_offers(db, offer_ids)
            return up_to

        return {"seq": await self.database.run(work)}

    async def take_pings(self, session: Session, data: Data) -> Answer:
        driver = _driver(session)
        sent = _validated(_pings, data.get("pings", [data]))
        at = now()
        taken = await self.pings.take({driver: [one.ping(at) for one in sent]})
        if taken.offline:
            raise location.DriverNotOnline
        return PingsOut.of(taken, [driver] * len(sent)).model_dump(mode="json")

    async def set_status(self, session: Session, data: Data) -> Answer:
        driver = _driver(session)
        body = _validated(TypeAdapter(StatusIn), data)

        async def work(db: Db) -> StatusOut:
            if body.online:
                ping = body.position.ping(now()) if body.position else None
                standing = await location.go_online(
                    db, self.redis, driver, ping=ping, rules=self.rules, fences=self.fences, by=driver
                )
            else:
                standing = await location.go_offline(db, self.redis, driver, by=driver)
            return StatusOut.of(driver, standing)

        return (await self.database.run(work)).model_dump(mode="json")

    async def subscribe(self, session: Session, data: Data) -> Answer:
        ride_id = _read(data, _RideRef).ride_id
        if len(session.rides) >= RIDES_FOLLOWED and ride_id not in session.rides:
            raise TooManySubscriptions(limit=RIDES_FOLLOWED)
        async with self.database.connection() as db:
            await rides.check_party(
                db,
                rides.RideId(ride_id),
                caller_id=UserId(session.user_id),
                sees_all=session.principal.has("operator"),
            )
        self.hub.follow(session, ride_id)
        return {"ride_id": str(ride_id)}

    async def unsubscribe(self, session: Session, data: Data) -> Answer:
        ride_id = _read(data, _RideRef).ride_id
        self.hub.unfollow(session, ride_id)
        return {"ride_id": str(ride_id)}

    async def pong(self, session: Session, data: Data) -> Answer:
        return {}


Verb = Callable[[Desk, Session, Data], Awaitable[Answer]]
_VERBS: dict[str, Verb] = {
    "ack": Desk.acknowledge,
    "location.ping": Desk.take_pings,
    "location.status": Desk.set_status,
    "subscribe": Desk.subscribe,
    "unsubscribe": Desk.unsubscribe,
    "ping": Desk.pong,
}


def _driver(session: Session) -> location.DriverId:
    if not session.principal.has("driver"):
        raise Forbidden
    return location.DriverId(session.user_id)


R = TypeVar("R")


def _read(data: Data, kind: type[R]) -> R:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise MessageMalformed(reason="wrong_shape") from error


def _validated(adapter: TypeAdapter[R], data: object) -> R:
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        raise MessageMalformed(reason="wrong_shape") from error
