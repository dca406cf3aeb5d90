"""One connection to the broker: made when somebody asks, and made again after it was lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import aiormq
import structlog
from aiormq.abc import AbstractChannel, AbstractConnection, ChannelFrame
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError
from prometheus_client import Counter
from yarl import URL

from catraca.platform.bus.topology import TopologyRefused
from catraca.platform.bus.transport import BusAway

log = structlog.get_logger()

# A broker that stopped answering is noticed after three times this and a bit.
HEARTBEAT_SECONDS = 5
CONNECT_SECONDS = 3.0
CALL_SECONDS = 5.0
PREPARE_SECONDS = 15.0
CLOSE_SECONDS = 2.0

_LOSSES = (AMQPError, OSError, RuntimeError, TimeoutError)

RECONNECTIONS = Counter(
    "catraca_bus_reconnections_total", "Connections made to RabbitMQ in place of a lost one.", ["purpose"]
)


@asynccontextmanager
async def broker_call(seconds: float = CALL_SECONDS) -> AsyncGenerator[None]:
    """Every wait for the broker: it ends, and whatever goes wrong in it is `BusAway`.

    A connection that is lost cancels whoever waits on it, which must not be taken for our own cancellation,
    or rejects them with whatever it has, a bare Exception included.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except (BusAway, TopologyRefused):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise BusAway("the connection was lost") from error
    except Exception as error:
        if not isinstance(error, _LOSSES) and type(error) is not Exception:
            # Perhaps a mistake of ours, which must not pass for an endless outage unseen.
            log.exception("rabbitmq_call_failed")
        raise BusAway(type(error).__name__) from error


class Link:
    """A connection for one purpose, with everything declared on it.

    `prepare` runs on each new connection, and again after `undeclare`.
    """

    def __init__(
        self, url: str, *, purpose: str, prepare: Callable[[AbstractConnection], Awaitable[None]]
    ) -> None:
        self._url = _with_heartbeat(URL(url), purpose)
        self._purpose = purpose
        self._prepare = prepare
        self._connection: AbstractConnection | None = None
        # How often declaring was called for, and which of these calls has been met on this connection.
        self._calls = 1
        self._met = 0
        self._opening: asyncio.Task[AbstractConnection] | None = None
        self._told_away = False
        self._closed = False

    async def connection(self) -> AbstractConnection:
        """The connection, with the topology declared; raises `BusAway`, or what `prepare` finds wrong."""
        if self._met == self._calls and self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._opening is None or self._opening.done():
            # A task of its own: whoever asked may lose patience, and others wait for the same one.
            self._opening = asyncio.create_task(self._open(), name=f"rabbitmq {self._purpose}")
            self._opening.add_done_callback(_hear_out)
        async with broker_call(CONNECT_SECONDS + PREPARE_SECONDS):
            return await asyncio.shield(self._opening)

    def undeclare(self) -> None:
        """Something we had declared is missing: declare everything again before the next use."""
        self._calls += 1

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._close_connection()

    async def _open(self) -> AbstractConnection:
        if self._closed:
            raise BusAway("closed")
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = await self._connect(again=connection is not None)
        calls = self._calls
        async with broker_call(PREPARE_SECONDS):
            await self._prepare(connection)
        self._met = calls
        return connection

    async def _connect(self, *, again: bool) -> AbstractConnection:
        self._met = 0
        try:
            async with broker_call(CONNECT_SECONDS):
                self._connection = await aiormq.connect(self._url)
        except BusAway as error:
            if not self._told_away:
                log.warning("rabbitmq_away", purpose=self._purpose, reason=str(error))
            self._told_away = True
            raise
        self._told_away = False
        if again:
            RECONNECTIONS.labels(self._purpose).inc()
        log.info("rabbitmq_connected", purpose=self._purpose)
        return self._connection

    async def _close_connection(self) -> None:
        if self._connection is not None and not self._connection.is_closed:
            with suppress(BusAway):
                async with broker_call(CLOSE_SECONDS):
                    await self._connection.close()


def _hear_out(opening: asyncio.Task[AbstractConnection]) -> None:
    """Those who waited may have left: that it failed then is no mistake of anybody's."""
    if not opening.cancelled():
        opening.exception()


class KeptChannel:
    """A channel to publish on, opened when needed and again when it is lost."""

    def __init__(self, link: Link, *, confirms: bool) -> None:
        self._link = link
        self._confirms = confirms
        self._opening = asyncio.Lock()
        self._channel: Channel | None = None

    async def get(self) -> Channel:
        connection = await self._link.connection()
        # While the broker is short of memory or disk it reads nothing more from us: what we write would only
        # pile up, and arrive late and many times.
        await connection.ready()
        async with self._opening:
            channel = self._channel
            if channel is None or channel.connection is not connection or not is_open(channel):
                channel = await connection.channel(publisher_confirms=self._confirms, on_return_raises=True)
                assert isinstance(channel, Channel)
                self._channel = channel
        return channel


def is_open(channel: Channel) -> bool:
    """Sooner than the channel knows: when the broker has closed it, its own closing takes a moment longer."""
    return not channel.is_closed and channel.connection.channels.get(channel.number) is channel


def when_closed(channel: AbstractChannel, tell: Callable[[], None]) -> asyncio.Future[Any]:
    """Tell when the channel is closed, by whomever, or lost; the answer may be canceled to stop that."""
    closing: asyncio.Future[Any] = cast(Any, channel).closing
    closing.add_done_callback(lambda _: tell())
    return closing


async def write(channel: Channel, payload: bytes) -> None:
    """Send frames that are ready; raises `BusAway` on a channel that is lost."""
    if not is_open(channel):
        raise BusAway("the channel was lost")
    await cast(Any, channel).write_queue.put(ChannelFrame(payload=payload, should_close=False))


@asynccontextmanager
async def spare_channel(connection: AbstractConnection) -> AsyncGenerator[AbstractChannel]:
    """A channel for a few questions: what the broker refuses closes it, and nothing else."""
    async with broker_call():
        channel = await connection.channel(publisher_confirms=False)
    try:
        yield channel
    finally:
        with suppress(BusAway):
            async with broker_call(CLOSE_SECONDS):
                await channel.close()


def _with_heartbeat(url: URL, purpose: str) -> URL:
    """The operator's own choice stays, if the address has one."""
    return url.update_query({"heartbeat": HEARTBEAT_SECONDS, **url.query, "name": f"catraca {purpose}"})
