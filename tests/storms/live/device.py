"""A device in a storm: it records every frame and reconnects to any server when its connection is lost."""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from catraca.platform.clock import now
from tests.servers import until
from tests.storms.callers import calling, request, token_of

LOST = (OSError, EOFError, TimeoutError, ConnectionClosed, InvalidHandshake)
# The pause before a device connects again.
AWAY_SECONDS = (0.0, 0.4)
OPEN_SECONDS = 20
ANSWER_SECONDS = 60
# The only close codes that failures may cause: of a killed server, a restarting one, one without a database.
ENDS = {None, 1001, 1006, 1012, 1013}

Notice = dict[str, Any]


@dataclass(eq=False)
class Device:
    user_id: UUID
    role: str
    ports: Sequence[int]
    chance: random.Random
    # Connects with a ticket, as browsers do.
    by_ticket: bool
    # About how long the device keeps a socket; then it disconnects, cleanly or not, and connects again.
    stay_seconds: float
    # The share of frames that the device acknowledges.
    ack_share: float
    on_notice: Callable[[Notice], None] = lambda _: None
    # Every frame with a number, unchanged, from the one after `first_seq`, the number in the first greeting.
    log: list[str] = field(default_factory=list)
    first_seq: int | None = None
    seq: int = 0
    # The last number that the device acknowledged, and the highest that the server confirmed.
    asked_seq: int = 0
    acked_seq: int = 0
    positions: list[tuple[datetime, Notice]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _socket: ClientConnection | None = None
    _leaving: asyncio.Timeout | None = None
    _acks: dict[str, int] = field(default_factory=dict)
    _answers: dict[str, asyncio.Future[Notice | None]] = field(default_factory=dict)
    _ids: "count[int]" = field(default_factory=count)

    async def listen(self) -> None:
        """Listen until canceled."""
        while True:
            try:
                await self._stay_a_while()
            except LOST as error:
                self._note_loss(error)
            await asyncio.sleep(self.chance.uniform(*AWAY_SECONDS))

    def stay(self) -> None:
        """Stop leaving: the remaining frames must arrive on this connection."""
        self.stay_seconds = math.inf
        if self._leaving is not None:
            self._leaving.reschedule(None)

    async def ask(self, kind: str, data: object) -> Notice | None:
        """Send a command and return its answer; None without a connection or if it is lost meanwhile."""
        if self._socket is None:
            return None
        answer: asyncio.Future[Notice | None] = asyncio.get_running_loop().create_future()
        message_id = f"q{next(self._ids)}"
        self._answers[message_id] = answer
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._send(self._socket, kind, data, message_id)
                return await answer
        except ConnectionClosed:
            return None
        except TimeoutError:
            raise AssertionError(f"{kind} was not answered within {ANSWER_SECONDS} s") from None
        finally:
            self._answers.pop(message_id, None)

    def has(self, seq: int) -> bool:
        """True if the device has everything up to `seq`, and all its acknowledgements were answered."""
        return self.first_seq is not None and self.seq >= seq and not self._acks

    async def receive_rest(self) -> None:
        """Wait until every frame that was sent before now has arrived."""
        await until(lambda: self.ask("ping", {}), seconds=ANSWER_SECONDS)

    async def _stay_a_while(self) -> None:
        async with await self._open() as socket:
            self._socket = socket
            try:
                async with asyncio.timeout(None) as self._leaving:
                    self._leave_later(self._leaving)
                    async for frame in socket:
                        assert isinstance(frame, str), frame
                        await self._receive(socket, frame)
                raise ConnectionClosed(socket.protocol.close_rcvd, socket.protocol.close_sent)
            except TimeoutError:
                self.counts["left"] += 1
            finally:
                self._forget_socket()
                if self.chance.random() < 0.5:
                    socket.transport.abort()

    def _leave_later(self, leaving: asyncio.Timeout) -> None:
        if self.stay_seconds < math.inf:
            seconds = self.chance.uniform(0.2, 1.8) * self.stay_seconds
            leaving.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _open(self) -> Any:
        port = self.chance.choice(self.ports)
        query = [] if self.first_seq is None else [f"since={self.seq}"]
        headers = {"authorization": token_of(self.role, self.user_id)}
        if self.by_ticket:
            async with calling(self.ports) as caller:
                given = await caller.ask(request("POST", "/v1/ws/ticket", token=headers.pop("authorization")))
            assert given.status == 201, given.body
            query.append(f"ticket={given.json()['ticket']}")
        return connect(
            f"ws://127.0.0.1:{port}/v1/ws?{'&'.join(query)}",
            additional_headers=headers,
            compression=None,
            proxy=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=2,
            process_exception=lambda error: error,
        )

    async def _receive(self, socket: ClientConnection, frame: str) -> None:
        message = msgspec.json.decode(frame)
        match message:
            case {"seq": int(seq)}:
                self.log.append(frame)
                # Like an app: the number of the last frame, even if it is not the highest.
                self.seq = seq
                self.on_notice(message)
                if self.chance.random() < self.ack_share:
                    await self._acknowledge(socket)
            case {"type": "hello", "data": {"seq": seq}}:
                self._greeted(seq)
            case {"type": "position", "data": data}:
                self.positions.append((now(), data))
            case {"type": "reply" | "error", "id": str(message_id)}:
                self._answered(message_id, message)
            case {"type": "heartbeat" | "goodbye" as kind}:
                self.counts[kind] += 1
            case _:
                self.faults.append(f"was sent {frame}")

    def _greeted(self, seq: int) -> None:
        self.counts["greeted"] += 1
        if self.first_seq is None:
            self.first_seq = self.seq = seq
        elif seq != self.seq:
            self.faults.append(f"resumed after {self.seq} and was greeted with {seq}")

    async def _acknowledge(self, socket: ClientConnection) -> None:
        message_id = f"a{next(self._ids)}"
        self._acks[message_id] = self.asked_seq = self.seq
        await self._send(socket, "ack", {"seq": self.seq}, message_id)

    def _answered(self, message_id: str, message: Notice) -> None:
        seq = self._acks.pop(message_id, None)
        if seq is None:
            answer = self._answers.get(message_id)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif message["type"] == "reply":
            self.acked_seq = max(self.acked_seq, seq)
            if message["data"]["seq"] < seq:
                self.faults.append(f"acknowledged {seq}; in the reply {message['data']['seq']} is the last")
        elif message["data"]["status"] != 503:
            self.faults.append(f"acknowledged {seq}; the reply was {message}")

    async def _send(self, socket: ClientConnection, kind: str, data: object, message_id: str) -> None:
        message = {"type": kind, "data": data, "id": message_id}
        await socket.send(msgspec.json.encode(message).decode())

    def _forget_socket(self) -> None:
        self._socket = self._leaving = None
        self._acks.clear()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    def _note_loss(self, error: BaseException) -> None:
        self.counts["lost"] += 1
        if isinstance(error, InvalidStatus) and error.response.status_code != 503:
            self.faults.append(f"was refused: {error.response.status_code} {error.response.body!r}")
        if isinstance(error, ConnectionClosed):
            code = error.rcvd.code if error.rcvd else None
            self.counts[f"closed {code}"] += 1
            if code not in ENDS:
                self.faults.append(f"was closed: {error}")
