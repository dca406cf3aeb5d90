"""What the roles of one process share: database, Redis, bus, settings."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from catraca.events import SignUpFlow, make_topology
from catraca.platform.bus import Topology, Transport
from catraca.platform.database import PREFER_INDEXES, Database, DatabaseLimits
from catraca.platform.redis_client import RedisClient, RedisLimits
from catraca.settings import Settings
from catraca.settings.onboarding import OnboardingSettings


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    database: Database
    redis: RedisClient
    bus: Transport
    topology: Topology
    # Limits the transactions of consumers and timers together, so that requests get connections too.
    hands: asyncio.Semaphore
    # Inherited from a supervisor; without one the API opens its own socket.
    listener: socket.socket | None = None


@asynccontextmanager
async def open_parts(
    settings: Settings, *, listener: socket.socket | None = None, topology: Topology | None = None
) -> AsyncGenerator[Parts]:
    """Open everything without waiting for any server; one that is unavailable is no error here."""
    assert settings.servers.database_url is not None
    database = await Database.open(
        settings.servers.database_url,
        limits=DatabaseLimits(connections=settings.servers.database_connections),
        planning=PREFER_INDEXES,
    )
    redis = RedisClient(
        settings.servers.redis_url, limits=RedisLimits(answer_seconds=settings.servers.redis_timeout)
    )
    topology = topology or make_topology(
        _sign_up_flow(settings.onboarding), writes_letters=settings.onboarding.mail_url is not None
    )
    bus = _bus(settings, database, topology)
    try:
        yield Parts(
            settings,
            database,
            redis,
            bus,
            topology,
            hands=asyncio.Semaphore(max(1, settings.servers.database_connections // 2)),
            listener=listener,
        )
    finally:
        await bus.close()
        await redis.close()
        await database.close()


def _sign_up_flow(settings: OnboardingSettings) -> SignUpFlow:
    return SignUpFlow(
        retry_ttl_ms=settings.retry_ttl_ms,
        max_retries=settings.max_retries,
        batch_size=settings.users_batch_size,
        batch_timeout_ms=settings.users_batch_timeout_ms,
        proc_concurrency=settings.users_proc_concurrency,
        batch_concurrency=settings.users_batch_concurrency,
    )


def _bus(settings: Settings, database: Database, topology: Topology) -> Transport:
    """RabbitMQ if an address is given; otherwise queues in the database."""
    if settings.servers.amqp_url is None:
        from catraca.platform.bus.postgres import PostgresBus

        return PostgresBus(database, topology)
    from catraca.platform.bus.rabbitmq import RabbitMqBus

    return RabbitMqBus(settings.servers.amqp_url, topology)
