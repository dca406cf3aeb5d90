"""PostgreSQL, Redis and RabbitMQ."""

from typing import Annotated

from pydantic import Field

from catraca.settings.values import Group, with_scheme


class ServerSettings(Group):
    # Addresses may hold passwords, so they are left out of every representation.
    database_url: Annotated[str, with_scheme("postgresql", "postgres")] | None = Field(
        default=None, repr=False, description="PostgreSQL >= 15; unset: the embedded one."
    )
    database_connections: int = Field(default=10, ge=1, le=500, description="Pool size of each process.")
    redis_url: Annotated[str, with_scheme("redis", "rediss", "unix")] | None = Field(
        default=None, repr=False, description="Redis >= 6.2; unset: the embedded one."
    )
    redis_timeout: float = Field(
        default=0.25,
        ge=0.05,
        le=10,
        description="Seconds a call to Redis may take; after that Catraca goes on without it.",
    )
    amqp_url: Annotated[str, with_scheme("amqp", "amqps")] | None = Field(
        default=None, repr=False, description="RabbitMQ >= 3.10; unset: the queues are in PostgreSQL."
    )
