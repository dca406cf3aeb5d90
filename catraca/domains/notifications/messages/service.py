"""Inserts notifications for events, announces them to sockets, and lists them for their readers."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import prometheus_client

from catraca.domains import people, rides, scheduling
from catraca.domains.notifications.messages import store
from catraca.domains.notifications.messages.model import (
    Announcement,
    encode_announcements,
    notifications_of,
    users_in,
)
from catraca.domains.notifications.model import MessageContext, NewNotification, Notification, SourceEvent
from catraca.domains.notifications.push.service import schedule_pushes
from catraca.domains.notifications.ride_notices.model import ended_drive
from catraca.domains.people import PersonalData, UserId
from catraca.events import CandidateFound, RideMatched
from catraca.events.appointments import AppointmentEvent
from catraca.platform.database import Db
from catraca.platform.event import Event

MAX_UNREAD_COUNT = 1000
MAX_MARKED = 1000
MAX_EXPORTED = 1000

NOTIFICATIONS = prometheus_client.Counter(
    "catraca_notifications_total", "Notifications inserted, by type.", ["type"]
)

Announce = Callable[[bytes], Awaitable[object]]


class Notifier:
    def __init__(self, announce: Announce, *, currency: str, pushes: bool = False) -> None:
        """`pushes`: also send web push to devices that are not connected."""
        self._pushes = pushes
        self._announce = announce
        self._currency = currency
        self._announcing: set[asyncio.Task[object]] = set()

    async def notify(self, db: Db, sources: Sequence[SourceEvent]) -> list[Announcement]:
        """Insert the notifications of these events, in order; announce them after the commit.

        Repeating an event raises; the inbox prevents it.
        """
        context = await self._load_context(db, sources)
        new = [one for source in sources for one in notifications_of(source, context)]
        inserted = await self._insert(db, new) if new else []
        ended = [drive for source in sources if (drive := ended_drive(source.event)) is not None]
        if ended:
            await store.clear_pickups(db, ended)
        return inserted

    async def _load_context(self, db: Db, sources: Sequence[SourceEvent]) -> MessageContext:
        by_type: dict[type[Event], list[Any]] = {}
        for _, event in sources:
            by_type.setdefault(type(event), []).append(event)
        offers = [event.offer_id for event in by_type.get(CandidateFound, ())]
        matched = [rides.RideId(event.ride_id) for event in by_type.get(RideMatched, ())]
        appointments = [
            event
            for kind, events in by_type.items()
            if issubclass(kind, AppointmentEvent)
            for event in events
        ]
        user_ids = {UserId(one) for _, event in sources for one in users_in(event)}
        # Locked, so that no user is erased between this read and the insert.
        users = await people.lock_users(db, user_ids)
        return MessageContext(
            people=users,
            rides=await rides.read_rides(db, matched) if matched else {},
            open_offers=await rides.open_offers(db, offers) if offers else (),
            names=await scheduling.names_of(
                db,
                service_ids={event.service_id for event in appointments},
                subject_ids={event.worker_id for event in appointments},
            )
            if appointments
            else scheduling.Names({}, {}),
            currency=self._currency,
        )

    async def _insert(self, db: Db, new: Sequence[NewNotification]) -> list[Announcement]:
        inserted = await store.insert_notifications(db, new)
        if self._pushes:
            await schedule_pushes(db, [(one, row.seq) for one, row in zip(new, inserted, strict=True)])
        types = Counter(one.notice.type for one in new)
        db.after_commit(lambda: self._announce_soon(inserted, types))
        return inserted

    def _announce_soon(self, inserted: Sequence[Announcement], types: Mapping[str, int]) -> None:
        """Announce in a task of its own. A lost announcement only delays: the hubs also poll."""
        for type_, count in types.items():
            NOTIFICATIONS.labels(type_).inc(count)
        payload = encode_announcements(inserted)

        async def announce() -> object:
            return await self._announce(payload)

        task = asyncio.get_running_loop().create_task(announce(), context=contextvars.Context())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)


async def list_notifications(
    db: Db, user_id: UUID, *, since: int | None, before: int | None, unread: bool, limit: int
) -> tuple[list[Notification], int]:
    """Return up to `limit` notifications, and the number of unread ones up to a maximum."""
    found = await store.read_page(db, user_id, since=since, before=before, unread=unread, limit=limit)
    return found, await store.count_unread(db, user_id, up_to=MAX_UNREAD_COUNT)


async def mark_read(db: Db, user_id: UUID, *, seqs: Sequence[int], up_to: int) -> tuple[list[int], int]:
    """Return the numbers that were unread before, and how many are unread now."""
    marked = await store.mark_read(db, user_id, seqs=seqs, up_to=up_to, limit=MAX_MARKED)
    return marked, await store.count_unread(db, user_id, up_to=MAX_UNREAD_COUNT)


async def _export(db: Db, user_id: UserId) -> object:
    found = await store.read_page(db, user_id, since=None, before=None, unread=False, limit=MAX_EXPORTED)
    return [
        {
            "seq": one.seq,
            "type": one.type,
            "data": msgspec.json.decode(one.data),
            "created_at": one.created_at,
        }
        for one in found
    ]


PERSONAL_DATA = PersonalData("notifications", export=_export, erase=store.erase_notifications)
