"""HTTP for a user's own notifications."""

from typing import Annotated

from fastapi import Query

from catraca.domains.notifications.messages import service
from catraca.domains.notifications.messages.schemas import NotificationOut, NotificationPage, ReadIn, ReadOut
from catraca.domains.notifications.model import MAX_SEQ
from catraca.platform.forms import PageLimit, split_page
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1", route_class=UnitOfWork)


@router.get(
    "/notifications",
    tags=["notifications"],
    summary="List your notifications",
    responses=problems(401, 422),
)
async def list_notifications(
    db: OpenDb,
    caller: Caller,
    since: Annotated[
        int | None, Query(ge=0, le=MAX_SEQ, description="Only after this number, oldest first.")
    ] = None,
    before: Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="Only before this number.")] = None,
    unread: Annotated[bool, Query(description="Only unread ones.")] = False,
    limit: PageLimit = 50,
) -> NotificationPage:
    """Returns a page of the caller's notifications: the newest first, or upwards from `since`."""
    found, unread_count = await service.list_notifications(
        db, caller.id, since=since, before=before, unread=unread, limit=limit + 1
    )
    page, following = split_page(found, limit=limit, cursor=lambda one: one.seq)
    return NotificationPage(
        items=[NotificationOut.of(one) for one in page], next=following, unread=unread_count
    )


@router.post(
    "/notifications/read",
    tags=["notifications"],
    summary="Mark notifications as read",
    responses=problems(401, 422),
)
async def mark_notifications_read(body: ReadIn, db: OpenDb, caller: Caller) -> ReadOut:
    """Marks some of the caller's notifications, or all up to a number. Repeating it changes nothing."""
    marked, unread = await service.mark_read(db, caller.id, seqs=body.seqs, up_to=body.up_to)
    return ReadOut(marked=marked, unread=unread)
