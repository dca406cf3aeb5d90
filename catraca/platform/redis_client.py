"""A client for Redis with short timeouts and a bounded pool. While Redis is away, calls fail at once.

Redis is an optimization: everything works without it, only slower.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import redis.asyncio
import structlog
from prometheus_client import Counter
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import Away

log = structlog.get_logger()

T = TypeVar("T")
Client = Any  # redis-py's own types are too loose to help
Argument = str | bytes | int | float

AWAY = Counter("catraca_redis_away_total", "Times Redis stopped answering or refused to work.")

# The errors of a server that answers but cannot work now. In errors of scripts they are within a sentence.
_UNABLE = re.compile(
    r"\b(OOM|READONLY|MISCONF|LOADING|BUSY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|NOAUTH|NOPERM|WRONGPASS)\b"
    r"|unknown command"
)


# A timeout later than this after its time means that the process was busy.
LATE_SECONDS = 0.05


class RedisAway(Away):
    """Redis does not answer. Continue without it or refuse the request; never treat it as an empty answer."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script: called by its digest, sent whole if the server does not have it."""

    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "digest", digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLimits:
    connections: int = 16
    answer_seconds: float = 0.25
    away_seconds: float = 1.0


class RedisClient:
    """One per process. A call waits at most `answer_seconds`. After a failure calls fail at once, until a
    check in the background, at most one per `away_seconds`, succeeds.
    """

    def __init__(self, url: str | None, *, limits: RedisLimits | None = None) -> None:
        """Without a URL, Redis is always away."""
        self._limits: Final = limits or RedisLimits()
        self._client: Client = _connectable(url, self._limits) if url else None
        self._away = url is None
        self._look_at_seconds = 0.0
        self._forgave_at_seconds: float | None = None
        self._look: asyncio.Task[bool] | None = None

    async def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run `work` with a redis-py client. After `RedisAway` it may or may not have reached the server."""
        if not self.seems_up():
            raise RedisAway
        return await self._attempt(self._client, work)

    def seems_up(self) -> bool:
        """True if calls are tried: for callers whose preparation is costly."""
        if self._away:
            self._look_again()
        return not self._away

    async def script(self, script: Script, keys: Sequence[Argument], arguments: Sequence[Argument]) -> Any:
        """Run a script in one round trip, or two if the server was restarted or flushed."""

        async def evaluate(client: Client) -> Any:
            pool: Pool = client.connection_pool
            try:
                return await pool.send("EVALSHA", script.digest, len(keys), *keys, *arguments)
            except exceptions.NoScriptError:
                return await pool.send("EVAL", script.text, len(keys), *keys, *arguments)

        return await self.run(evaluate)

    async def is_up(self) -> bool:
        """True if Redis answers now. Then calls are tried again."""
        if self._client is None:
            return False
        if self._away:
            self._look_at_seconds = 0.0
            self._look_again()
            assert self._look is not None
            return await asyncio.shield(self._look)
        try:
            return bool(await self._attempt(self._client, _ping))
        except RedisAway:
            return False

    async def close(self) -> None:
        """Close every connection; calls then raise `RedisAway`."""
        client, self._client, self._away = self._client, None, True
        if self._look is not None:
            await self._briefly(asyncio.shield(self._look))
        if client is not None:
            await self._briefly(client.aclose())

    async def _attempt(self, client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
        # A caller that is canceled stops redis-py between a command and its reply. redis-py then closes the
        # connection, so the reply cannot reach another caller.
        limit = asyncio.timeout(self._limits.answer_seconds)
        began = monotonic_seconds()
        try:
            async with limit:
                answer = await work(client)
                self._forgave_at_seconds = None
                return answer
        except (TimeoutError, OSError, exceptions.RedisError) as error:
            if not _is_away(error):
                raise
            if not self._forgives(limit, began):
                self._fell_away(error)
            raise RedisAway from error

    def _forgives(self, limit: asyncio.Timeout, began_seconds: float) -> bool:
        """True if the answer may have come in time, and this process was too busy to read it.

        Once: calls that start later and time out too mean that Redis is away.
        """
        ends_at = limit.when()
        if not limit.expired() or ends_at is None or monotonic_seconds() - ends_at < LATE_SECONDS:
            return False
        if self._forgave_at_seconds is None:
            self._forgave_at_seconds = monotonic_seconds()
        return began_seconds < self._forgave_at_seconds

    def _fell_away(self, error: BaseException) -> None:
        self._look_at_seconds = monotonic_seconds() + self._limits.away_seconds
        if not self._away:
            self._away = True
            AWAY.inc()
            log.warning("redis_away", error=type(error).__name__)

    def _look_again(self) -> None:
        if self._client is None or self._look is not None or monotonic_seconds() < self._look_at_seconds:
            return
        self._look = asyncio.create_task(self._is_back(self._client))

    async def _is_back(self, client: Client) -> bool:
        try:
            # Idle connections are probably broken, and each would fail a call.
            await self._briefly(client.connection_pool.disconnect(inuse_connections=False))
            await self._attempt(client, _ping)
        except RedisAway:
            return False
        finally:
            self._look = None
        if self._client is None:  # closed meanwhile
            return False
        self._away = False
        log.info("redis_back")
        return True

    async def _briefly(self, farewell: Awaitable[object]) -> None:
        """Wait for a clean end, but not long: the server may be away."""
        with suppress(TimeoutError, OSError, exceptions.RedisError):
            async with asyncio.timeout(self._limits.answer_seconds):
                await farewell


class Pool(redis.asyncio.ConnectionPool):
    """At most `max_connections` connections; further callers wait.

    redis-py's own pool has locks, events and measurements at each call, which take as long as the call.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._places = asyncio.Semaphore(self.max_connections)
        self._connections: list[Client] = []
        self._idle: list[Client] = []

    async def send(self, *command: Argument) -> Any:
        """Send one command and return its reply, without redis-py's work around it."""
        connection = await self.get_connection()
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        finally:
            await self.release(connection)

    async def get_connection(self, *_: object, **__: object) -> Client:
        """A connection that is open and has no data of another caller."""
        await self._places.acquire()
        connection = self._idle.pop() if self._idle else self._new_connection()
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Client) -> None:
        self._idle.append(connection)
        self._places.release()

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close idle connections, or all; each opens again when it is used."""
        chosen = self._connections if inuse_connections else self._idle
        await asyncio.gather(*(connection.disconnect() for connection in chosen), return_exceptions=True)

    def _new_connection(self) -> Client:
        connection = self.make_connection()
        self._connections.append(connection)
        return connection


def _connectable(url: str, limits: RedisLimits) -> Client:
    """A client that connects at its first call: a Redis that is away must not fail the start."""
    pool = Pool.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        max_connections=limits.connections,
        # `_attempt` has one timeout for all: waiting for a connection, connecting, sending, reading.
        socket_timeout=None,
        socket_connect_timeout=None,
        # The caller decides on retries: not every command may be repeated.
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
    )
    return redis.asyncio.Redis.from_pool(pool)


async def _ping(client: Client) -> Any:
    return await client.ping()


def _is_away(error: BaseException) -> bool:
    """False for a wrong command or a broken script: a defect must be seen. All other errors mean "away"."""
    if isinstance(error, exceptions.ResponseError):
        unable = (exceptions.OutOfMemoryError, exceptions.ReadOnlyError, exceptions.NoPermissionError)
        return isinstance(error, unable) or _UNABLE.search(str(error)) is not None
    return not isinstance(error, exceptions.DataError)
