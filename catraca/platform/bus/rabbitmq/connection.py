"""A connection to the broker: opened when needed, and opened again after it was lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import aiormq
import structlog
from aiormq import AMQPError, Channel
from aiormq.abc import AbstractChannel, AbstractConnection
from prometheus_client import Counter
from yarl import URL

from catraca.platform.bus.rabbitmq.frame_filter import FilteredTransport
from catraca.platform.bus.topology import TopologyRefused
from catraca.platform.bus.transport import BusAway

log = structlog.get_logger()

# A frozen broker is detected after 3 x (this + 1) seconds.
HEARTBEAT_SECONDS = 5
CONNECT_SECONDS = 3.0
CALL_SECONDS = 5.0
PREPARE_SECONDS = 15.0
CLOSE_SECONDS = 2.0

_LOSSES = (AMQPError, OSError, RuntimeError, TimeoutError)

RECONNECTIONS = Counter(
    "catraca_bus_reconnections_total", "Connections to RabbitMQ that replaced a lost one.", ["purpose"]
)


@contextmanager
def broker_errors() -> Generator[None]:
    """Turn every error of the client library into `BusAway`.

    A lost connection cancels the calls that wait on it, or rejects them with any error, a bare Exception too.
    """
    try:
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
            # Perhaps a mistake of ours, which must not look like an endless outage.
            log.exception("rabbitmq_call_failed")
        raise BusAway(type(error).__name__) from error


@asynccontextmanager
async def broker_call(seconds: float = CALL_SECONDS) -> AsyncGenerator[None]:
    """For every wait on the broker: it ends in time, and its errors are `BusAway`."""
    with broker_errors():
        async with asyncio.timeout(seconds):
            yield


class Link:
    """Keeps a connection for one purpose. `prepare` runs on each new one, and again after `undeclare`."""

    def __init__(
        self, url: str, *, purpose: str, prepare: Callable[[AbstractConnection], Awaitable[None]]
    ) -> None:
        self._url = _with_heartbeat(URL(url), purpose)
        self._purpose = purpose
        self._prepare = prepare
        self._connection: AbstractConnection | None = None
        # `undeclare` raises the one, a finished `prepare` sets the other.
        self._version = 1
        self._declared_version = 0
        self._opening: asyncio.Task[AbstractConnection] | None = None
        self._is_away_logged = False
        self._closed = False

    async def connection(self) -> AbstractConnection:
        """The open, prepared connection; raises `BusAway`, or what `prepare` raises."""
        if (
            self._declared_version == self._version
            and self._connection is not None
            and not self._connection.is_closed
        ):
            return self._connection
        if self._opening is None or self._opening.done():
            # A task of its own: a caller may time out while others wait for the same connection.
            self._opening = asyncio.create_task(self._open(), name=f"rabbitmq {self._purpose}")
            self._opening.add_done_callback(_retrieve_error)
        async with broker_call(CONNECT_SECONDS + PREPARE_SECONDS):
            return await asyncio.shield(self._opening)

    def undeclare(self) -> None:
        """Declare everything again before the next use, because something is missing on the broker."""
        self._version += 1

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
        version = self._version
        async with broker_call(PREPARE_SECONDS):
            await self._prepare(connection)
        self._declared_version = version
        return connection

    async def _connect(self, *, again: bool) -> AbstractConnection:
        self._declared_version = 0
        try:
            async with broker_call(CONNECT_SECONDS):
                self._connection = await aiormq.connect(self._url, transport_factory=FilteredTransport())
        except BusAway as error:
            if not self._is_away_logged:
                log.warning("rabbitmq_away", purpose=self._purpose, reason=str(error))
            self._is_away_logged = True
            raise
        self._is_away_logged = False
        if again:
            RECONNECTIONS.labels(self._purpose).inc()
        log.info("rabbitmq_connected", purpose=self._purpose)
        return self._connection

    async def _close_connection(self) -> None:
        if self._connection is not None and not self._connection.is_closed:
            with suppress(BusAway):
                async with broker_call(CLOSE_SECONDS):
                    await self._connection.close()


def _retrieve_error(opening: asyncio.Task[AbstractConnection]) -> None:
    """All callers may have timed out; asyncio would then log the error as never retrieved."""
    if not opening.cancelled():
        opening.exception()


class KeptChannel:
    """A channel for publishing, opened when needed and opened again when it was lost."""

    def __init__(self, link: Link, *, confirms: bool) -> None:
        self._link = link
        self._confirms = confirms
        self._opening = asyncio.Lock()
        self._channel: Channel | None = None

    async def get(self) -> Channel:
        connection = await self._link.connection()
        # A broker short of memory or disk does not read: messages would pile up, and arrive late and often.
        await connection.ready()
        async with self._opening:
            channel = self._channel
            if channel is None or channel.connection is not connection or not is_open(channel):
                channel = await connection.channel(publisher_confirms=self._confirms, on_return_raises=True)
                assert isinstance(channel, Channel)
                self._channel = channel
        return channel


def is_open(channel: Channel) -> bool:
    """Also false for a channel that the broker has closed and whose own closing takes a moment longer."""
    return not channel.is_closed and channel.connection.channels.get(channel.number) is channel


@asynccontextmanager
async def spare_channel(connection: AbstractConnection) -> AsyncGenerator[AbstractChannel]:
    """A channel for a few calls: an error of the broker closes only this channel."""
    async with broker_call():
        channel = await connection.channel(publisher_confirms=False)
    try:
        yield channel
    finally:
        with suppress(BusAway):
            async with broker_call(CLOSE_SECONDS):
                await channel.close()


def _with_heartbeat(url: URL, purpose: str) -> URL:
    """A heartbeat in the operator's URL has priority."""
    return url.update_query({"heartbeat": HEARTBEAT_SECONDS, **url.query, "name": f"catraca {purpose}"})
