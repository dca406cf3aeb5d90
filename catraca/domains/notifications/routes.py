"""HTTP and WebSocket for what people are told: translate, authorise, call one verb."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, cast
from uuid import UUID

import structlog
from fastapi import Depends, Query
from prometheus_client import Counter
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from catraca.domains.notifications.errors import (
    BinaryNotSpoken,
    MessageMalformed,
    OriginRefused,
    PushEndpointRefused,
    PushKeysInvalid,
    PushOff,
    TicketInvalid,
    TooManyMessages,
)
from catraca.domains.notifications.model import MAX_SEQ, TICKET_SECONDS
from catraca.domains.notifications.schemas import (
    DeviceOut,
    DevicesOut,
    NotificationPage,
    PushKeyOut,
    ReadIn,
    ReadOut,
    SubscriptionIn,
    TicketOut,
)
from catraca.domains.notifications.service.session import Gone, Session
from catraca.domains.notifications.service.speaking import Desk, read_said
from catraca.domains.notifications.store import notifications as store
from catraca.domains.notifications.store import subscriptions, tickets
from catraca.platform.auth import Authenticator, Principal
from catraca.platform.errors import Busy, Refusal, RequestInvalid, Unauthenticated
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problem_response, problems, spoken_detail, told_data
from catraca.platform.http.proxies import caller_of
from catraca.platform.http.rate_limits import LocalBuckets, RateLimit, RateLimiter
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response, wired
from catraca.platform.texts import negotiate
from catraca.platform.web_push import PushHosts, Subscription, read_keys

UNREAD_COUNTED = 1000
MARKED_AT_ONCE = 1000
DEVICES_A_PERSON = 10
MESSAGES = RateLimit(100, 10)
STRIKES = 10

log = structlog.get_logger()

REFUSED = Counter("catraca_ws_refused_total", "Sockets that were not opened, by the code.", ["code"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PushParts:
    """What devices need to subscribe, where web push is set up."""

    public_key: str
    hosts: PushHosts


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParts:
    """What the API's role hands to these routes."""

    desk: Desk
    authenticator: Authenticator
    limiter: RateLimiter
    principals: RateLimit
    strangers: RateLimit
    origins: Sequence[str] = ()
    push: PushParts | None = None
    messages: LocalBuckets = field(default_factory=LocalBuckets)


Parts = Annotated[LiveParts, Depends(wired(LiveParts))]

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.get(
    "/notifications",
    tags=["notifications"],
    summary="What you were told",
    responses=problems(401, 422),
)
async def list_notifications(
    db: OpenDb,
    caller: Caller,
    since: Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="After this number, upwards.")] = None,
    before: Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="Before this number.")] = None,
    unread: Annotated[bool, Query(description="Only what is not marked as read.")] = False,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> NotificationPage:
    """Answers the caller's own notifications, a page at a time: the newest first, or upwards from `since`."""
    found = await store.page_of(db, caller.id, since=since, before=before, unread=unread, limit=limit + 1)
    left = await store.count_unread(db, caller.id, up_to=UNREAD_COUNTED)
    return NotificationPage.of(found, limit=limit, unread=left)


@router.post(
    "/notifications/read",
    tags=["notifications"],
    summary="Mark as read",
    responses=problems(401, 422),
)
async def mark_notifications_read(body: ReadIn, db: OpenDb, caller: Caller) -> ReadOut:
    """Marks some of the caller's notifications, or all up to a number. Doing it again changes nothing."""
    marked = await store.mark_read(db, caller.id, seqs=body.seqs, up_to=body.up_to, limit=MARKED_AT_ONCE)
    return ReadOut(marked=marked, unread=await store.count_unread(db, caller.id, up_to=UNREAD_COUNTED))


@router.post(
    "/ws/ticket",
    tags=["notifications"],
    summary="Get a ticket for a WebSocket",
    status_code=201,
    responses=problems(401),
)
@stores_no_response
async def give_ticket(db: OpenDb, caller: Caller) -> TicketOut:
    """For browsers, which cannot send a token with a WebSocket: `GET /v1/ws?ticket=...`, once and soon."""
    ticket = secrets.token_urlsafe(32)
    expires_at = await tickets.insert_ticket(db, ticket, caller, lifetime=timedelta(seconds=TICKET_SECONDS))
    return TicketOut(ticket=ticket, expires_at=expires_at)


@router.get(
    "/push/key", tags=["notifications"], summary="The key to subscribe with", responses=problems(401, 409)
)
async def read_push_key(caller: Caller, parts: Parts) -> PushKeyOut:
    """For a page's `pushManager.subscribe`. 409 `push_off` where nobody has set web push up."""
    return PushKeyOut(public_key=_push(parts).public_key)


@router.get("/push/subscriptions", tags=["notifications"], summary="Your devices", responses=problems(401))
async def list_push_subscriptions(db: OpenDb, caller: Caller) -> DevicesOut:
    """Answers which devices of the caller's are reached by web push."""
    return DevicesOut(items=[DeviceOut.of(one) for one in await subscriptions.devices_of(db, caller.id)])


@router.post(
    "/push/subscriptions",
    tags=["notifications"],
    summary="Be reached while not connected",
    status_code=201,
    responses=problems(401, 409, 422),
)
async def subscribe_device(body: SubscriptionIn, db: OpenDb, caller: Caller, parts: Parts) -> DeviceOut:
    """Subscribes a device to web push; the same one again is renewed. Beyond ten, the oldest goes."""
    if not _push(parts).hosts.allow(body.endpoint):
        raise PushEndpointRefused
    if not read_keys(body.keys.p256dh, body.keys.auth):
        raise PushKeysInvalid
    device = await subscriptions.put_subscription(
        db, caller.id, Subscription(body.endpoint, body.keys.p256dh, body.keys.auth)
    )
    await subscriptions.keep_newest(db, caller.id, most=DEVICES_A_PERSON)
    return DeviceOut.of(device)


@router.delete(
    "/push/subscriptions/{subscription_id}",
    tags=["notifications"],
    summary="Be left alone",
    status_code=204,
    responses=problems(401, 422),
)
async def unsubscribe_device(subscription_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Ends a device's subscription; doing it again changes nothing."""
    await subscriptions.remove_subscription(db, caller.id, subscription_id)


def _push(parts: LiveParts) -> PushParts:
    if parts.push is None:
        raise PushOff
    return parts.push


async def live(websocket: WebSocket) -> None:
    """The socket itself: who may open it, and then everything that is said on it."""
    parts = cast(LiveParts, websocket.app.state.wired[LiveParts])
    try:
        principal, since = await _admit(websocket, parts)
    except Refusal as refusal:
        REFUSED.labels(refusal.code).inc()
        log.info("socket_refused", code=refusal.code)
        response = problem_response(
            refusal,
            accept_language=websocket.headers.get("accept-language"),
            request_id=websocket.state.request_id,
        )
        await response(websocket.scope, websocket.receive, websocket.send)
        return
    await websocket.accept()
    session = _session(websocket, principal, parts)
    try:
        await parts.desk.hub.join(session, since=since)
        await _converse(websocket, session, parts)
    except (Gone, WebSocketDisconnect):
        pass
    except Refusal as refusal:  # the database is away
        await session.end(TRY_AGAIN_LATER, refusal.code)
    finally:
        parts.desk.hub.leave(session)


router.routes.append(WebSocketRoute("/v1/ws", live, name="live"))

# Close codes; those from 4000 on are ours, named after HTTP's.
UNSUPPORTED, TRY_AGAIN_LATER, MALFORMED, TOO_MANY = 1003, 1013, 4400, 4429


async def _admit(websocket: WebSocket, parts: LiveParts) -> tuple[Principal, int | None]:
    _check_origin(websocket, parts.origins)
    since = _since(websocket)
    if parts.desk.hub.draining:
        raise Busy(retry_after_seconds=1)
    known: Principal | Refusal | None = websocket.state.principal
    if isinstance(known, Principal):
        return known, since
    if known is not None and known.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise known  # whom we could not look up is not a stranger
    ticket = None if known else websocket.query_params.get("ticket")
    principal = await parts.desk.database.run(lambda db: tickets.take_ticket(db, ticket)) if ticket else None
    if principal is None:
        await parts.limiter.demand(f"address:{_address(websocket)}", parts.strangers)
        raise known or (TicketInvalid() if ticket else Unauthenticated())
    await parts.limiter.demand(f"principal:{principal.id}", parts.principals)
    await parts.authenticator.ensure_good(principal)
    return principal, since


def _address(websocket: WebSocket) -> str:
    return caller_of(websocket.client.host) if websocket.client else "unknown"


def _check_origin(websocket: WebSocket, origins: Sequence[str]) -> None:
    """Pages of other sites open sockets unasked, and nothing but this header tells them apart."""
    given = websocket.headers.getlist("origin")
    if not given or "*" in origins:
        return
    own = websocket.headers.get("host", "").lower()
    if len(given) > 1 or not (given[0] in origins or (own and _place_of(given[0]) == own)):
        raise OriginRefused


def _place_of(origin: str) -> str | None:
    """Host and port of a page's origin; `null` and the like have none."""
    scheme, _, place = origin.lower().partition("://")
    return place if scheme in ("http", "https") else None


def _since(websocket: WebSocket) -> int | None:
    given = websocket.query_params.get("since")
    if given is None:
        return None
    short = given.isascii() and given.isdecimal() and len(given) <= len(str(MAX_SEQ))
    if not short or int(given) > MAX_SEQ:
        raise RequestInvalid(errors=[])
    return int(given)


def _session(websocket: WebSocket, principal: Principal, parts: LiveParts) -> Session:
    async def send(frame: str) -> None:
        try:
            await websocket.send({"type": "websocket.send", "text": frame})
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise Gone from error

    async def close(code: int, reason: str) -> None:
        try:
            await websocket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise Gone from error

    language = negotiate(websocket.headers.get("accept-language"))
    return Session(principal, language, send, close, parts.desk.hub.read_since)


async def _converse(websocket: WebSocket, session: Session, parts: LiveParts) -> None:
    """Hear the client until it goes, or is sent away."""
    strikes = 0
    while not session.closed:
        event = await websocket.receive()
        if event["type"] == "websocket.disconnect":
            return
        frame = event.get("text")
        if frame is None:
            await session.end(UNSUPPORTED, BinaryNotSpoken.code)
        elif parts.messages.hit(str(session.user_id), MESSAGES) is not None:
            await session.end(TOO_MANY, TooManyMessages.code)
        elif not await _answer(session, frame, parts.desk):
            strikes += 1
            if strikes == STRIKES:
                await session.end(MALFORMED, MessageMalformed.code)


async def _answer(session: Session, frame: str, desk: Desk) -> bool:
    """Do what a message asks for; whether it was understood."""
    message_id: str | None = None
    try:
        said = read_said(frame)
        message_id = said.id
        answer = await desk.do(session, said)
    except Refusal as refusal:
        detail = spoken_detail(refusal, session.language)
        problem = {"code": refusal.code, "status": refusal.status, "detail": detail, **told_data(refusal)}
        await session.say("error", problem, message_id=message_id)
        return not isinstance(refusal, MessageMalformed)
    if message_id is not None:
        await session.say("reply", answer, message_id=message_id)
    return True
