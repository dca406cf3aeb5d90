"""The WebSocket `/v1/ws`: admits clients, reads their messages, and sends replies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import structlog
from fastapi.exceptions import RequestValidationError
from prometheus_client import Counter
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from catraca.domains.notifications.model import MAX_SEQ
from catraca.domains.notifications.sockets.errors import (
    BinaryNotSpoken,
    MessageMalformed,
    OriginRefused,
    TicketInvalid,
    TooManyMessages,
)
from catraca.domains.notifications.sockets.model import decode_message
from catraca.domains.notifications.sockets.schemas import TicketOut
from catraca.domains.notifications.sockets.service import SocketCommands, issue_ticket, use_ticket
from catraca.domains.notifications.sockets.session import Disconnected, SendNow, Session
from catraca.platform.auth import Authenticator, Principal
from catraca.platform.database import Database
from catraca.platform.errors import Busy, Refusal, RequestInvalid, Unauthenticated
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import localized_detail, problems, public_data
from catraca.platform.http.proxies import caller_of
from catraca.platform.http.rate_limits import Hit, LocalBuckets, RateLimit, RateLimiter
from catraca.platform.http.route import (
    OpenDb,
    UnitOfWork,
    check_query,
    make_router,
    part_of,
    stores_no_response,
)
from catraca.platform.texts import negotiate

QUERY_NAMES = frozenset({"since", "ticket"})
MESSAGES = RateLimit(100, 10)
MAX_MALFORMED = 10
# Close codes; from 4000 on they are ours, after the HTTP status.
UNSUPPORTED, TRY_AGAIN_LATER, MALFORMED, TOO_MANY = 1003, 1013, 4400, 4429

log = structlog.get_logger()

REFUSED = Counter("catraca_ws_refused_total", "Sockets that were refused, by code.", ["code"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketParts:
    """Given by the API role."""

    commands: SocketCommands
    database: Database
    authenticator: Authenticator
    limiter: RateLimiter
    principals: RateLimit
    strangers: RateLimit
    origins: Sequence[str] = ()
    messages: LocalBuckets = field(default_factory=LocalBuckets)


router = make_router(prefix="/v1", route_class=UnitOfWork)


@router.post(
    "/ws/ticket",
    tags=["notifications"],
    summary="Get a ticket for a WebSocket",
    status_code=201,
    responses=problems(401),
)
@stores_no_response
async def give_ticket(db: OpenDb, caller: Caller) -> TicketOut:
    """For browsers, which cannot send a token with a WebSocket: `GET /v1/ws?ticket=...`, once, in 30 s."""
    ticket, expires_at = await issue_ticket(db, caller)
    return TicketOut(ticket=ticket, expires_at=expires_at)


async def live(websocket: WebSocket) -> None:
    parts = part_of(websocket.app, SocketParts)
    try:
        check_query(websocket, QUERY_NAMES)
        principal, since = await _admit(websocket, parts)
    except (Refusal, RequestValidationError) as error:  # `RequestMiddleware` answers
        code = error.code if isinstance(error, Refusal) else RequestInvalid.code
        REFUSED.labels(code).inc()
        log.info("socket_refused", code=code)
        raise
    await websocket.accept()
    hub = parts.commands.hub
    session = _session(websocket, principal, parts)
    try:
        await hub.join(session, since=since)
        await _read_messages(websocket, session, parts)
    except (Disconnected, WebSocketDisconnect):
        pass
    except Refusal as refusal:  # the database is away
        await session.end(TRY_AGAIN_LATER, refusal.code)
    finally:
        hub.leave(session)


router.routes.append(WebSocketRoute("/v1/ws", live, name="live"))


async def _admit(websocket: WebSocket, parts: SocketParts) -> tuple[Principal, int | None]:
    """Return the caller and `since`. Raises a refusal, which is sent instead of a socket."""
    _check_origin(websocket, parts.origins)
    since = _since(websocket)
    if parts.commands.hub.draining:
        raise Busy(retry_after_seconds=1)
    known: Principal | Refusal | None = websocket.state.principal
    if isinstance(known, Principal):
        return known, since
    if known is not None and known.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise known  # the token could not be checked; it is not invalid
    ticket = None if known else websocket.query_params.get("ticket")
    principal = await parts.database.run(lambda db: use_ticket(db, ticket)) if ticket else None
    if principal is None:
        await parts.limiter.demand(f"address:{_address(websocket)}", parts.strangers)
        raise known or (TicketInvalid() if ticket else Unauthenticated())
    await parts.limiter.demand(f"principal:{principal.id}", parts.principals)
    await parts.authenticator.ensure_good(principal)
    return principal, since


def _address(websocket: WebSocket) -> str:
    return caller_of(websocket.client.host) if websocket.client else "unknown"


def _check_origin(websocket: WebSocket, origins: Sequence[str]) -> None:
    """Refuse pages of other sites: browsers let them open sockets, and only this header identifies them."""
    given = websocket.headers.getlist("origin")
    if not given or "*" in origins:
        return
    own = websocket.headers.get("host", "").lower()
    if len(given) > 1 or not (given[0] in origins or (own and _host_of(given[0]) == own)):
        raise OriginRefused


def _host_of(origin: str) -> str | None:
    """Return host and port of an origin; None for `null` and the like."""
    scheme, _, host = origin.lower().partition("://")
    return host if scheme in ("http", "https") else None


def _since(websocket: WebSocket) -> int | None:
    given = websocket.query_params.get("since")
    if given is None:
        return None
    short = given.isascii() and given.isdecimal() and len(given) <= len(str(MAX_SEQ))
    if not short or int(given) > MAX_SEQ:
        raise RequestInvalid(errors=[])
    return int(given)


def _session(websocket: WebSocket, principal: Principal, parts: SocketParts) -> Session:
    async def send(frame: bytes) -> None:
        try:
            await websocket.send({"type": "websocket.send", "text": frame.decode()})
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise Disconnected from error

    async def close(code: int, reason: str) -> None:
        try:
            await websocket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise Disconnected from error

    language = negotiate(websocket.headers.get("accept-language"))
    send_now: SendNow = websocket.state.send_now
    return Session(principal, language, send, send_now, close, parts.commands.hub.read_since)


async def _read_messages(websocket: WebSocket, session: Session, parts: SocketParts) -> None:
    """Run the client's messages until the socket closes."""
    malformed = 0
    while not session.closed:
        event = await websocket.receive()
        if event["type"] == "websocket.disconnect":
            return
        frame = event.get("text")
        if frame is None:
            await session.end(UNSUPPORTED, BinaryNotSpoken.code)
        elif parts.messages.hit(Hit.of(session.user_id.bytes, MESSAGES)) is not None:
            await session.end(TOO_MANY, TooManyMessages.code)
        elif not await _run_message(session, frame, parts.commands):
            malformed += 1
            if malformed == MAX_MALFORMED:
                await session.end(MALFORMED, MessageMalformed.code)


async def _run_message(session: Session, frame: str, commands: SocketCommands) -> bool:
    """Run a message and send the reply or the refusal; return False if it was malformed."""
    message_id: str | None = None
    try:
        message = decode_message(frame)
        message_id = message.id
        reply = await commands.run(session, message)
    except Refusal as refusal:
        detail = localized_detail(refusal, session.language)
        problem = {"code": refusal.code, "status": refusal.status, "detail": detail, **public_data(refusal)}
        await session.send_message("error", problem, message_id=message_id)
        return not isinstance(refusal, MessageMalformed)
    if message_id is not None:
        await session.send_message("reply", reply, message_id=message_id)
    return True
