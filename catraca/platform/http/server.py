"""uvicorn with limits on connections, request heads and waiting times."""

import asyncio
import logging
import math
import resource
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from prometheus_client import Counter
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from catraca.platform.errors import (
    Busy,
    HeadersTooLarge,
    Refusal,
    RequestMalformed,
    TooManyConnections,
    UrlTooLong,
)
from catraca.platform.http.connections import LOOPBACK, Connections
from catraca.platform.http.problems import problem_response
from catraca.platform.http.proxies import Network
from catraca.platform.http.request_middleware import SECURITY_HEADERS
from catraca.platform.http.sockets import GuardedSocket, socket_options
from catraca.platform.ids import new_id

REFUSED_EARLY = Counter(
    "catraca_http_refused_early_total", "Connections refused before they made a request.", ["code"]
)
CLOSED_IDLE = Counter("catraca_http_closed_idle_total", "Idle connections closed to make room for new ones.")
# uvicorn warns of each malformed request; the metric above counts them.
REQUEST_LOG = logging.getLogger("uvicorn.error.requests")
REQUEST_LOG.setLevel(logging.ERROR)


def _most_connections() -> int:
    """Leaves file descriptors for servers, logs and metrics."""
    return max(64, min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 256))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    connections: int = field(default_factory=_most_connections)
    connections_per_address: int = 256
    # Addresses that stand for many people, so that their connections are not limited.
    proxies: Sequence[Network] = LOOPBACK
    url_bytes: int = 8 * 1024
    headers: int = 100
    header_bytes: int = 16 * 1024
    message_bytes: int = 1024 * 1024  # of one request on the wire, with chunk sizes and trailers
    # The same on paths whose body is a file, read in parts.
    stream_bytes: int = 2 * 1024**3
    streams: frozenset[str] = frozenset()
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    stall_seconds: float = 60.0
    linger_seconds: float = 2.0
    drain_seconds: int = 8


class HttpServer(uvicorn.Server):
    """Serves `app` until `should_exit`. The runner handles signals, for all roles of the process."""

    def __init__(self, app: FastAPI, *, limits: ServerLimits | None = None) -> None:
        limits = limits or ServerLimits()
        self._lingering: set[GuardedProtocol] = set()
        counted = Connections(most_per_address=limits.connections_per_address, proxies=limits.proxies)
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(  # pyright: ignore[reportArgumentType]
                    GuardedProtocol, limits=limits, lingering=self._lingering, counted=counted
                ),
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # see `proxies`
                # One second after our own limit, which also covers cases that this timer does not.
                timeout_keep_alive=math.ceil(limits.idle_seconds) + 1,
                timeout_graceful_shutdown=limits.drain_seconds,
                **socket_options(counted),
            )
        )

    def capture_signals(self) -> Any:
        return nullcontext()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # about once a second
            now = asyncio.get_running_loop().time()
            for connection in [*self._ours(), *self._lingering]:
                connection.close_if_late(now)
        return await super().on_tick(counter)

    def _ours(self) -> "list[GuardedProtocol | GuardedSocket]":
        connections: set[Any] = self.server_state.connections  # pyright: ignore[reportUnknownMemberType]
        return list(connections)


class GuardedProtocol(HttpToolsProtocol):
    """A connection with a deadline for each wait and a limit on buffered data.

    `RequestMiddleware` limits a request's body and response; this limits what comes before, between and
    after.
    """

    def __init__(
        self,
        *args: Any,
        limits: ServerLimits,
        lingering: "set[GuardedProtocol]",
        counted: Connections,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._counted = counted
        self._key: str | None = None
        self.logger = REQUEST_LOG
        self._limits = limits
        self._lingering = lingering
        self._deadline = math.inf
        self._stalled_since = math.inf
        self._fault: Refusal | None = None
        self._deaf = False
        self._in_head = True
        self._complete = True  # the last request was received completely
        self._new_message = False
        self._message_bytes = 0
        self._most_bytes = limits.message_bytes

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait_at_most(self._limits.head_seconds)
        self._key = self._counted.key_of(self.client)
        refusal = self._no_room()
        if refusal is None:
            self._counted.idle(self, self._key)
            return
        self._leave()
        if len(self._lingering) > self._limits.connections:
            transport.abort()
        else:
            self._refuse(refusal)

    def _no_room(self) -> Refusal | None:
        """Count the connection; if there are too many, close the one that has been idle longest for it."""
        if not self._counted.add(self._key) and not self._counted.close_longest_idle(self._key):
            return TooManyConnections()
        if len(self.connections) > self._limits.connections and not self._counted.close_longest_idle():
            return Busy()
        return None

    def close_idle(self) -> None:
        self._counted.busy(self, self._key)
        CLOSED_IDLE.inc()
        self._deaf = True
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lingering.discard(self)
        self._leave()
        super().connection_lost(exc)

    def _leave(self) -> None:
        """Count the connection no more."""
        self._counted.busy(self, self._key)
        self._counted.remove(self._key)
        self._key = None

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        super().data_received(data)
        if self._deaf:
            return
        if not self._in_head and cast(Any, self.parser).should_upgrade():
            # h2c and others: answered as HTTP/1.1. What follows could be of either protocol.
            self._deaf = True
            self.cycle.keep_alive = False
        else:
            self._count(len(data))

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault or RequestMalformed())

    def handle_websocket_upgrade(self) -> None:
        self._deaf = True  # from here on the socket's protocol receives the data
        self._leave()
        super().handle_websocket_upgrade()

    def _count(self, received_bytes: int) -> None:
        # The parser buffers an incomplete header without a limit. The first read of a message is limited by
        # the socket's buffer, and may hold the end of the message before, so counting begins with the second
        # read.
        if self._new_message:
            self._new_message, self._message_bytes = False, 0
            return
        self._message_bytes += received_bytes
        if self._in_head and self._message_bytes > self._limits.url_bytes + self._limits.header_bytes:
            self._refuse(HeadersTooLarge())
        elif self._message_bytes > self._most_bytes:
            self._deaf = True
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._new_message = True
        self._complete = False
        self._wait_at_most(self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.url_bytes:
            self._fault = UrlTooLong()
            raise self._fault

    def on_headers_complete(self) -> None:
        self._check_head()
        if self._fault is not None:
            raise self._fault
        self._in_head = False
        self._counted.busy(self, self._key)
        self._deadline = math.inf
        super().on_headers_complete()
        # Without a path for a WebSocket: its own protocol parses the head again.
        is_stream = self.scope.get("path") in self._limits.streams
        self._most_bytes = self._limits.stream_bytes if is_stream else self._limits.message_bytes
        if not cast(Any, self.parser).should_upgrade():
            self.headers = []  # trailers arrive as headers, and must not be added to a running request

    def _check_head(self) -> None:
        """Refuse heads that the parser accepts and that a proxy might interpret differently."""
        length_bytes = hosts = 0
        coding = body = b""
        for name, value in self.headers:
            length_bytes += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                coding = value.lower()
            elif name == b"content-length":
                body = value.lstrip(b"0")
        if len(self.headers) > self._limits.headers or length_bytes > self._limits.header_bytes:
            self._fault = HeadersTooLarge()
            return
        parser = cast(Any, self.parser)
        version = parser.get_http_version()
        if version == "1.1":
            sound = hosts == 1 and coding in (b"", b"chunked")
        else:
            sound = version == "1.0" and hosts <= 1 and not coding
        # After an upgrade the parser treats what follows as another protocol, and would drop the body.
        if not sound or ((coding or body) and parser.should_upgrade()):
            self._fault = RequestMalformed()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._complete = True
        if self.cycle is not None and self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._in_head or not self.cycle.response_complete:
            return
        if self._complete:
            self._wait_for_request()
        elif self.expect_100_continue:
            self.transport.close()  # refused instead of "100 Continue": the next bytes may be body or request
        else:
            self._wait_at_most(self._limits.head_seconds)  # to read and drop the rest of a refused body

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = math.inf

    def _wait_for_request(self) -> None:
        self._wait_at_most(self._limits.idle_seconds)
        self._counted.idle(self, self._key)

    def _wait_at_most(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def close_if_late(self, now: float) -> None:
        if self.transport.is_closing() and self._deadline == math.inf:
            self._wait_at_most(self._limits.linger_seconds)  # for the client to read the rest
        elif self._deadline < now or now - self._stalled_since > self._limits.stall_seconds:
            # Not `close`, which waits for a client that does not read.
            self.transport.abort()

    def _refuse(self, refusal: Refusal) -> None:
        """Respond, stop reading, and close a moment later: closing on unread bytes loses the response."""
        self._deaf = True
        self._counted.busy(self, self._key)
        REFUSED_EARLY.labels(refusal.code).inc()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            cycle.keep_alive = False
            if cycle.response_started or not cycle.more_body:
                return  # the fault is in a later request; the response under way is the last one
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(self._answer(refusal))
        self._wait_at_most(self._limits.linger_seconds)
        self.connections.discard(self)
        self._lingering.add(self)
        self.transport.write_eof()

    def _answer(self, refusal: Refusal) -> bytes:
        languages = [value for name, value in self.headers or () if name == b"accept-language"]
        response = problem_response(
            refusal,
            accept_language=languages[0].decode("latin-1") if languages else None,
            request_id=str(new_id()),
        )
        lines = [*self.server_state.default_headers, *response.raw_headers, *SECURITY_HEADERS]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
        return STATUS_LINE[refusal.status] + head + b"connection: close\r\n\r\n" + bytes(response.body)
