"""Versions, settings and clocks of servers, for `catraca doctor`: read once, on a separate connection."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import aio_pika
import asyncpg
import redis.asyncio
from aio_pika.connection import make_url
from redis import RedisError

from catraca.platform import clock

ASK_SECONDS = 3.0
CLOCK_SAMPLES = 3


class Unreachable(Exception):
    """The server does not answer. The message is the reason, without the URL and its password."""


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """How far a server's clock is ahead of ours, and the uncertainty due to the round trip."""

    ahead_seconds: float
    uncertain_seconds: float

    @property
    def surely_seconds(self) -> float:
        """The smallest possible difference."""
        return max(0.0, abs(self.ahead_seconds) - self.uncertain_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFacts:
    version: str
    version_number: int
    settings: dict[str, str]
    is_replica: bool
    is_read_only: bool
    connections_allowed: int
    revision: str | None
    skew: ClockSkew


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    version: str
    eviction_policy: str
    is_replica: bool
    used_bytes: int
    limit_bytes: int
    skew: ClockSkew


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitFacts:
    product: str
    version: str


async def ask_postgres(url: str) -> PostgresFacts:
    """Connect, read, disconnect."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            connection: Any = await cast(Any, asyncpg).connect(url, timeout=ASK_SECONDS)
            try:
                return await _postgres_facts(connection)
            finally:
                connection.terminate()
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Unreachable(_reason(error)) from error


async def _postgres_facts(connection: Any) -> PostgresFacts:
    row = await connection.fetchrow("""
        SELECT current_setting('server_version') AS version,
               current_setting('server_version_num')::int AS version_number,
               current_setting('fsync') AS fsync,
               current_setting('synchronous_commit') AS synchronous_commit,
               current_setting('full_page_writes') AS full_page_writes,
               pg_is_in_recovery() AS is_replica,
               current_setting('transaction_read_only') = 'on' AS is_read_only,
               to_regclass('alembic_version') IS NOT NULL AS is_migrated,
               least(
                   current_setting('max_connections')::int
                       - current_setting('superuser_reserved_connections')::int
                       - coalesce(current_setting('reserved_connections', true)::int, 0),
                   (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
                   (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
               ) AS connections_allowed
    """)
    revision = None
    if row["is_migrated"]:
        revision = await connection.fetchval("SELECT version_num FROM alembic_version")

    async def server_clock() -> datetime:
        return await connection.fetchval("SELECT clock_timestamp()")

    durability = ("fsync", "synchronous_commit", "full_page_writes")
    return PostgresFacts(
        version=row["version"],
        version_number=row["version_number"],
        settings={name: row[name] for name in durability},
        is_replica=row["is_replica"],
        is_read_only=row["is_read_only"],
        connections_allowed=row["connections_allowed"],
        revision=revision,
        skew=await _skew(server_clock),
    )


async def ask_redis(url: str) -> RedisFacts:
    """Connect, read, disconnect."""
    client: Any = None
    try:
        async with asyncio.timeout(ASK_SECONDS):
            client = cast(Any, redis.asyncio).from_url(url, socket_connect_timeout=ASK_SECONDS)
            facts: dict[str, Any] = await client.info("everything")

            async def server_clock() -> datetime:
                seconds, microseconds = await client.time()
                return datetime.fromtimestamp(seconds + microseconds / 1e6, UTC)

            return RedisFacts(
                version=str(facts["redis_version"]),
                eviction_policy=str(facts.get("maxmemory_policy", "noeviction")),
                is_replica=facts.get("role") == "slave",
                used_bytes=int(facts["used_memory"]),
                limit_bytes=int(facts.get("maxmemory", 0)),
                skew=await _skew(server_clock),
            )
    except (OSError, ValueError, KeyError, RedisError) as error:
        raise Unreachable(_reason(error)) from error
    finally:
        if client is not None:
            await client.connection_pool.disconnect()


async def ask_rabbitmq(url: str) -> RabbitFacts:
    """Connect and read the server's greeting."""
    try:
        async with asyncio.timeout(ASK_SECONDS), _connected(url) as connection:
            greeting = connection.transport.connection.server_properties
            return RabbitFacts(
                product=_text(greeting.get("product", "?")), version=_text(greeting.get("version", "0"))
            )
    except (OSError, ValueError, aio_pika.exceptions.AMQPError) as error:
        raise Unreachable(_reason(error)) from error


async def ask_queues(url: str, names: Collection[str]) -> dict[str, int | None]:
    """The number of messages in each queue of a RabbitMQ; None for a queue that does not exist."""
    found: dict[str, int | None] = dict.fromkeys(names)
    try:
        async with asyncio.timeout(ASK_SECONDS), _connected(url) as connection:
            for name in names:
                # RabbitMQ closes the channel if the queue does not exist.
                channel = await connection.channel()
                with suppress(aio_pika.exceptions.ChannelNotFoundEntity):
                    queue = await channel.declare_queue(name, passive=True)
                    found[name] = queue.declaration_result.message_count
                    await channel.close()
    except (OSError, ValueError, aio_pika.exceptions.AMQPError) as error:
        raise Unreachable(_reason(error)) from error
    return found


@asynccontextmanager
async def _connected(url: str) -> AsyncGenerator[Any]:
    """Closed also if connecting fails: else the garbage collector closes it at any time."""
    connection = aio_pika.Connection(make_url(url))
    try:
        await connection.connect()
        yield connection
    finally:
        await connection.close()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


async def _skew(server_clock: Callable[[], Awaitable[datetime]]) -> ClockSkew:
    """Read the clock a few times and use the quickest answer, which has the least uncertainty."""
    samples: list[ClockSkew] = []
    for _ in range(CLOCK_SAMPLES):
        before = clock.now()
        theirs = await server_clock()
        trip = clock.now() - before
        ahead = theirs - (before + trip / 2)
        samples.append(ClockSkew(ahead.total_seconds(), trip.total_seconds() / 2))
    return min(samples, key=lambda sample: sample.uncertain_seconds)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ASK_SECONDS:.0f} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__ if isinstance(error, (ValueError, KeyError)) else str(error)
