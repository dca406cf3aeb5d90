"""From what happened to what each person is told: one row each, and a hint to whoever holds their sockets."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import msgspec
from prometheus_client import Counter

from catraca.domains import people, rides, scheduling
from catraca.domains.notifications.model import (
    Happened,
    Notification,
    Telling,
    World,
    people_of,
    tellings_of,
)
from catraca.domains.notifications.service.pushing import make_due
from catraca.domains.notifications.store import notifications as store
from catraca.events import CandidateFound, RideMatched
from catraca.events.appointments import AppointmentEvent
from catraca.platform.database import Db, after_commit

TOLD = Counter("catraca_notifications_total", "Notifications written, by their type.", ["type"])

Announce = Callable[[bytes], Awaitable[object]]


class News(msgspec.Struct, frozen=True, array_like=True):
    """A new notification, as processes tell each other: whose, its number, and the frame to send."""

    user_id: UUID
    seq: int
    frame: str


_encoder = msgspec.msgpack.Encoder()
read_news = msgspec.msgpack.Decoder(list[News]).decode


class Teller:
    """Writes notifications down, and announces them once they are committed."""

    def __init__(self, announce: Announce, *, currency: str, pushes: bool = False) -> None:
        """`pushes`: whether devices that are not connected are reached as well."""
        self._pushes = pushes
        self._announce = announce
        self._currency = currency
        self._announcing: set[asyncio.Task[object]] = set()

    async def tell(self, db: Db, happenings: Sequence[Happened]) -> list[Notification]:
        """Everybody whom these events concern, in their order. Safe to repeat only through an inbox."""
        world = await self._look(db, happenings)
        tellings = [one for happened in happenings for one in tellings_of(happened, world)]
        return await self._write(db, tellings) if tellings else []

    async def _look(self, db: Db, happenings: Sequence[Happened]) -> World:
        events = [happened.event for happened in happenings]
        offers = [event.offer_id for event in events if isinstance(event, CandidateFound)]
        matched = [rides.RideId(event.ride_id) for event in events if isinstance(event, RideMatched)]
        appointments = [event for event in events if isinstance(event, AppointmentEvent)]
        concerned = {people.UserId(one) for event in events for one in people_of(event)}
        # Held: whoever is erased meanwhile would be told all the same, and named.
        held = await people.hold_users(db, concerned)
        return World(
            people=held,
            rides=await rides.get_rides(db, matched) if matched else {},
            open_offers=await rides.open_among(db, offers) if offers else (),
            names=await scheduling.names_of(
                db,
                service_ids={event.service_id for event in appointments},
                subject_ids={event.worker_id for event in appointments},
            )
            if appointments
            else scheduling.Names({}, {}),
            currency=self._currency,
        )

    async def _write(self, db: Db, tellings: Sequence[Telling]) -> list[Notification]:
        written = await store.insert_notifications(db, tellings)
        if self._pushes:
            pairs = zip(tellings, written, strict=True)
            await make_due(db, [row for telling, row in pairs if not telling.quiet])
        after_commit(db, lambda: self._announce_soon(written))
        return written

    def _announce_soon(self, written: Sequence[Notification]) -> None:
        """Beside the next transaction, not before it: whoever does not hear of it looks by himself."""
        for one in written:
            TOLD.labels(one.type).inc()
        payload = _encoder.encode([News(one.user_id, one.seq, one.frame()) for one in written])

        async def announce() -> object:
            return await self._announce(payload)

        task = asyncio.get_running_loop().create_task(announce(), context=contextvars.Context())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
