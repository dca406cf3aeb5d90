"""The outer middleware: request id, limits on size and time, security headers, log line, metrics."""

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from fastapi import Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import (
    AnswerTooSlow,
    BodyTooLarge,
    InternalError,
    Refusal,
    RequestMalformed,
    RequestTooSlow,
    UrlInvalid,
)
from catraca.platform.http.caller_middleware import header
from catraca.platform.http.deadlines import Deadlines
from catraca.platform.http.problems import invalid_request, problem_response

log = structlog.get_logger()

REQUEST_ID_SHAPE = re.compile(r"[A-Za-z0-9._-]{8,64}")
# A response may set these itself.
OVERRIDABLE = frozenset({b"cache-control", b"content-security-policy"})
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
REQUESTS = Counter("catraca_http_requests_total", "Answered requests.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "catraca_http_request_seconds",
    "Time from the arrival of a request to the end of its response.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
READS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = READS | {"POST", "PUT", "PATCH", "DELETE"}
CLIENT_GONE = 499  # the client closed the connection before the response; nginx uses this number too


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    body_bytes: int = 64 * 1024
    body_seconds: float = 10.0
    answer_seconds: float = 15.0
    # Paths whose body is a file, read in parts: there each part has a time limit.
    streams: frozenset[str] = frozenset()
    stream_bytes: int = 1024**3
    stream_wait_seconds: float = 30.0
    stream_work_seconds: float = 60.0


class RequestMiddleware:
    """ASGI middleware around every request: no task, no copy, and a response to every error inside."""

    def __init__(
        self, app: ASGIApp, *, limits: RequestLimits, is_draining: Callable[[], bool] = lambda: False
    ) -> None:
        """While `is_draining`, each answer closes its connection: a proxy must not use it again."""
        self._app = app
        self._limits = limits
        self._is_draining = is_draining
        shortest = min(limits.body_seconds, limits.answer_seconds)
        self._deadlines = Deadlines(every_seconds=min(1.0, shortest / 4))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            began = monotonic_seconds()
            method = scope["method"]
            if method == "HEAD":
                # The route of GET answers. The server keeps its own scope, and sends no body.
                scope = {**scope, "method": "GET"}
            exchange = _Exchange(scope, receive, send, self._limits, closes=self._is_draining())
            self._deadlines.watch(exchange)
            try:
                await exchange.run(self._app)
            finally:
                self._deadlines.release(exchange)
                _record(method, scope, exchange.status or CLIENT_GONE, monotonic_seconds() - began)
            return
        if scope["type"] == "websocket":
            await self._run_socket(scope, receive, send)

    async def _run_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _set_request_id(scope)
        try:
            await self._app(scope, receive, send)
        except (Refusal, RequestValidationError) as error:  # of the handshake
            await _problem(error, scope, request_id)(scope, receive, send)


class _Exchange:
    """One request and its response."""

    __slots__ = (
        "_body_bytes",
        "_body_whole",
        "_closes",
        "_is_stream",
        "_late",
        "_limits",
        "_loop",
        "_most_bytes",
        "_receive",
        "_send",
        "_task",
        "deadline",
        "request_id",
        "scope",
        "status",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limits: RequestLimits, *, closes: bool
    ) -> None:
        self.scope = scope
        self._closes = closes
        self.status = 0
        self._receive = receive
        self._send = send
        self._limits = limits
        self._is_stream = scope["path"] in limits.streams
        self._most_bytes = limits.stream_bytes if self._is_stream else limits.body_bytes
        self._body_bytes = -1  # the application has not read the body yet
        self._body_whole = False
        self._late: Refusal | None = None
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + limits.answer_seconds
        self.request_id = _set_request_id(scope)

    async def run(self, app: ASGIApp) -> None:
        try:
            self._check_start()
            await app(self.scope, self.receive, self.send)
        except ClientDisconnect:
            return
        except (Refusal, RequestValidationError) as error:
            await self._answer(error)
        except asyncio.CancelledError:
            if self._late is None or (self._task is not None and self._task.uncancel() > 0):
                raise  # the server stops
            await self._answer(self._late)
        except Exception:
            log.exception("request_failed")
            await self._answer(InternalError())

    def cut_off(self) -> None:
        """Cancel the work at the deadline. `Database` then cuts its connection."""
        reading = self._body_bytes >= 0 and not self._body_whole
        self._late = RequestTooSlow() if reading else AnswerTooSlow()
        assert self._task is not None
        self._task.cancel()

    def _check_start(self) -> None:
        scope = self.scope
        if b"%00" in scope["raw_path"] or b"%00" in scope["query_string"]:
            raise UrlInvalid
        length = header(scope, b"content-length")
        if length is not None:
            if not length.isdecimal():  # our server refuses these before
                raise RequestMalformed
            if int(length) > self._most_bytes:
                raise BodyTooLarge(limit_bytes=self._most_bytes)

    async def receive(self) -> Message:
        if self._is_stream:
            # The client must keep sending, and the application must keep working.
            self.deadline = self._loop.time() + self._limits.stream_wait_seconds
            message = await self._receive_some()
            self.deadline = self._loop.time() + self._limits.stream_work_seconds
            return message
        return await self._receive_some()

    async def _receive_some(self) -> Message:
        if self._body_whole:
            return await self._receive()  # the next message is the client's disconnect
        if self._body_bytes < 0:
            # One limit for the whole body, so that a slow client cannot extend it byte by byte.
            self._body_bytes = 0
            self.deadline = self._loop.time() + self._limits.body_seconds
        message = await self._receive()
        if message["type"] == "http.request":
            self._body_bytes += len(message.get("body", b""))
            if self._body_bytes > self._most_bytes:
                raise BodyTooLarge(limit_bytes=self._most_bytes)
            if message.get("more_body", False):
                return message
        self._body_whole = True
        self.deadline = self._loop.time() + self._limits.answer_seconds
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[tuple[bytes, bytes]] = message["headers"]
            own = [name for name, _ in headers if name in OVERRIDABLE]
            headers.append((b"x-request-id", self.request_id.encode()))
            if own:
                headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in own)
            else:
                headers.extend(SECURITY_HEADERS)
            if self.scope["scheme"] == "https":
                headers.append(STRICT_TRANSPORT)
            if self._closes:
                headers.append((b"connection", b"close"))
        await self._send(message)

    async def _answer(self, error: Refusal | RequestValidationError) -> None:
        if self.status:  # the response has begun; the server closes the connection
            raise error
        response = _problem(error, self.scope, self.request_id)
        await response(self.scope, self._receive, self.send)


def _problem(error: Refusal | RequestValidationError, scope: Scope, request_id: str) -> Response:
    language = header(scope, b"accept-language")
    refusal = error if isinstance(error, Refusal) else invalid_request(error, accept_language=language)
    return problem_response(refusal, accept_language=language, request_id=request_id)


def _set_request_id(scope: Scope) -> str:
    """Set the request's id: the client's own if it may be logged, else a new one."""
    given = header(scope, b"x-request-id")
    fit = given is not None and REQUEST_ID_SHAPE.fullmatch(given)
    request_id = given if given and fit else f"{random.getrandbits(128):032x}"  # unique, not secret
    scope.setdefault("state", {})["request_id"] = request_id
    structlog.contextvars.bind_contextvars(request_id=request_id)
    return request_id


class _Metrics:
    """The metrics of one method, route and status: finding them by their labels costs as much as counting."""

    __slots__ = ("_request_seconds", "_requests")

    def __init__(self, method: str, path: str, status: int) -> None:
        label = method if method in METHODS else "other"
        self._requests = REQUESTS.labels(label, path, status)
        self._request_seconds = REQUEST_SECONDS.labels(label, path)

    def count(self, seconds: float) -> None:
        self._requests.inc()
        self._request_seconds.observe(seconds)


_metrics: dict[tuple[str, str, int], _Metrics] = {}


def _record(method: str, scope: Scope, status: int, seconds: float) -> None:
    route = scope.get("route")
    path = "unknown" if route is None else route.path
    metrics = _metrics.get((method, path, status))
    if metrics is None:
        metrics = _metrics[method, path, status] = _Metrics(method, path, status)
    metrics.count(seconds)
    if method in READS and status < HTTPStatus.BAD_REQUEST:
        return  # successful reads would fill the log
    log.info("request", method=method, route=path, status=status, milliseconds=round(seconds * 1000, 1))
