"""The outermost layer: request id, limits on size and time, security headers, one log line, one metric."""

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import (
    AnswerTooSlow,
    BodyTooLarge,
    InternalError,
    Refusal,
    RequestTooSlow,
    UrlInvalid,
)
from catraca.platform.http.gate import header
from catraca.platform.http.problems import problem_response
from catraca.platform.ids import new_id

log = structlog.get_logger()

REQUEST_ID_SHAPE = re.compile(r"[A-Za-z0-9._-]{8,64}")
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
REQUESTS = Counter("catraca_http_requests_total", "Requests answered.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "catraca_http_request_seconds",
    "From the request's arrival to the end of its answer.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    body_bytes: int = 64 * 1024
    body_seconds: float = 10.0
    answer_seconds: float = 15.0


class Envelope:
    """Wraps every request. Pure ASGI: no task, no copy, and an answer for whatever goes wrong inside."""

    def __init__(self, app: ASGIApp, *, limits: RequestLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits)
        began = monotonic_seconds()
        structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
        try:
            await exchange.run(self._app)
        finally:
            _tell(scope, exchange.status, monotonic_seconds() - began)
            structlog.contextvars.clear_contextvars()


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: RequestLimits) -> None:
        self.scope = scope
        self.status = 0
        self._receive = receive
        self._send = send
        self._limits = limits
        self._received_bytes = 0
        given = header(scope, b"x-request-id")
        self.request_id = given if given and REQUEST_ID_SHAPE.fullmatch(given) else str(new_id())
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def run(self, app: ASGIApp) -> None:
        try:
            self._check_start()
            async with asyncio.timeout(self._limits.answer_seconds):
                await app(self.scope, self.receive, self.send)
        except Refusal as refusal:
            await self._answer(refusal)
        except TimeoutError:
            await self._answer(AnswerTooSlow())
        except Exception:
            log.exception("request_failed")
            await self._answer(InternalError())

    def _check_start(self) -> None:
        scope = self.scope
        if b"%00" in scope["raw_path"] or b"%00" in scope["query_string"]:
            raise UrlInvalid
        length = header(scope, b"content-length")
        if length is not None and int(length) > self._limits.body_bytes:
            raise BodyTooLarge(limit_bytes=self._limits.body_bytes)

    async def receive(self) -> Message:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                message = await self._receive()
        except TimeoutError as error:
            raise RequestTooSlow from error
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            if self._received_bytes > self._limits.body_bytes:
                raise BodyTooLarge(limit_bytes=self._limits.body_bytes)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers.append((b"x-request-id", self.request_id.encode()))
            present = {name for name, _ in headers}
            headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in present)
        await self._send(message)

    async def _answer(self, refusal: Refusal) -> None:
        if self.status:  # the answer had begun; the server closes the connection
            raise refusal
        response = problem_response(
            refusal, accept_language=header(self.scope, b"accept-language"), request_id=self.request_id
        )
        await response(self.scope, self.receive, self.send)


def _tell(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", "unknown")
    method = scope["method"]
    REQUESTS.labels(method, route, status).inc()
    REQUEST_SECONDS.labels(method, route).observe(seconds)
    if method in ("GET", "HEAD", "OPTIONS") and status < HTTPStatus.BAD_REQUEST:
        return  # reads that went well would drown the rest
    log.info("request", method=method, route=route, status=status, milliseconds=round(seconds * 1000, 1))
