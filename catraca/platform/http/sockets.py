"""WebSocket connections with limits on buffered data and waiting times."""

import math
from asyncio import BaseTransport
from functools import partial
from typing import Any

import structlog
from prometheus_client import Counter
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from catraca.platform.errors import Busy
from catraca.platform.http.connections import Connections
from catraca.platform.http.problems import problem_response
from catraca.platform.ids import new_id

log = structlog.get_logger()

CUT_OFF = Counter(
    "catraca_ws_cut_off_total",
    "Sockets closed because of the client's behaviour, by reason.",
    ["reason"],
)

MESSAGE_BYTES = 16 * 1024
# Empty fragments would never reach the size limit.
MESSAGE_FRAGMENTS = 256
# Replies to pings are also buffered for a client that does not read.
UNREAD_BYTES = 256 * 1024
STALL_SECONDS = 15.0
CLOSE_SECONDS = 3.0
HANDSHAKE_SECONDS = 15.0
PING_SECONDS = 20.0

FAULTS: dict[int, str] = {CloseCode.INVALID_DATA: "bad_text", CloseCode.MESSAGE_TOO_BIG: "too_large"}


class GuardedSocket(WebSocketsSansIOProtocol):
    """A socket whose client must read what it is sent, and that closes without waiting for the client.

    The application finds `send_now` in the state of its connection.
    """

    def __init__(self, *args: Any, counted: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._counted = counted
        self._key: str | None = None
        self.close_timeout = CLOSE_SECONDS
        self._deaf = False
        self._stopping = False
        self._stalled_since = math.inf
        self._handshake_until = self.loop.time() + HANDSHAKE_SECONDS

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        # It was a connection of HTTP until now, so there is room for it.
        self._key = self._counted.key_of(self.client)
        self._counted.add(self._key)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # else it was refused, and the application is not called
            self.scope.setdefault("state", {})["send_now"] = self.send_now

    def send_now(self, text: bytes) -> bool:
        """Send a text frame without waiting; False if the client must read first, or is gone.

        A task for each frame would take longer than the frame.
        """
        if self.close_sent or self.disconnected or not self.writable.is_set():
            return False
        try:
            self.conn.send_text(text)
        except InvalidState:  # the client has closed
            return False
        self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_handshake()
        elif self.transport.get_write_buffer_size() > UNREAD_BYTES:
            self._cut("unread")

    def _refuse_handshake(self) -> None:
        """Send the library's response to an invalid handshake; uvicorn would not send it."""
        self._deaf = self.handshake_complete = self.close_sent = True
        self._count("handshake_refused")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MESSAGE_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        # Checked here: uvicorn logs invalid text as an error of the server.
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_text(self.frames):
            self.frames = []
            self.conn.fail(CloseCode.INVALID_DATA, "not UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Send the close frame, and close a moment later: closing on unread bytes would lose it."""
        self._deaf = True
        self.frames = []
        if self.close_sent or self.transport.is_closing():
            return  # already closing
        self.close_sent = True
        close = self.conn.close_sent
        code = CloseCode.ABNORMAL_CLOSURE if close is None else close.code
        self._count(FAULTS.get(code, "protocol_error"))
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = math.inf

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            # Also after an HTTP response to the handshake, which uvicorn would not count as complete.
            self.handshake_complete = True

    def shutdown(self) -> None:
        self._stopping = True
        super().shutdown()

    def send_500_response(self) -> None:
        """While the server stops: refuse an open handshake with 503 instead of 500."""
        if not self._stopping or self.initial_response or self.handshake_complete:
            super().send_500_response()
            return
        answer = problem_response(Busy(), accept_language=None, request_id=str(new_id()))
        response = self.conn.reject(answer.status_code, bytes(answer.body).decode())
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = answer.headers["content-type"]
        self.conn.send_response(response)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.disconnected = True  # later messages of the application are ignored

    def close_if_late(self, now: float) -> None:
        """Called about once a second."""
        if now - self._stalled_since > STALL_SECONDS:
            self._cut("slow_reader")
        elif not self.handshake_complete and now > self._handshake_until:
            self._cut("handshake_too_slow")

    def _cut(self, reason: str) -> None:
        # Not `close`, which waits for a client that does not read.
        if not self.transport.is_closing() or self.transport.get_write_buffer_size():
            self._deaf = True
            self._count(reason)
            self.transport.abort()

    def _count(self, reason: str) -> None:
        CUT_OFF.labels(reason).inc()
        log.info("socket_cut_off", reason=reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stalled_since = math.inf
        self._counted.remove(self._key)
        self._key = None
        super().connection_lost(exc)


def _is_text(fragments: list[bytes]) -> bool:
    try:
        b"".join(fragments).decode()
    except UnicodeDecodeError:
        return False
    return True


def socket_options(counted: Connections) -> dict[str, Any]:
    """uvicorn's options for WebSockets. Without compression: messages are small, and it needs much memory."""
    return {
        "ws": partial(GuardedSocket, counted=counted),
        "ws_max_size": MESSAGE_BYTES,
        "ws_ping_interval": PING_SECONDS,
        "ws_ping_timeout": PING_SECONDS,
        "ws_per_message_deflate": False,
    }
