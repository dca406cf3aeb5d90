"""Database errors, translated into refusals that a caller can act on."""

import asyncio

import asyncpg

from catraca.platform.database.connection import Connection
from catraca.platform.errors import Busy, DatabaseUnavailable, Refusal

# After these an answer may still be on its way, which the connection's next user must not receive.
UNFINISHED = (asyncio.CancelledError, TimeoutError, asyncpg.InternalClientError)
BROKEN = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)
CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,  # the driver found its connection broken between two messages
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,  # too many connections, a full disk, no memory
    # The database does not exist yet, or its password is being changed: the caller can only wait.
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ReadOnlySQLTransactionError,  # connected to a replica after a failover
)
_BUSY = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)


def as_refusal(error: BaseException, connection: Connection | None) -> Refusal | None:
    """The refusal for a database failure; None for every other error."""
    if isinstance(error, _BUSY):
        return Busy()
    if isinstance(error, _AWAY) or (
        isinstance(error, asyncpg.InterfaceError) and (connection is None or connection.is_closed())
    ):
        return DatabaseUnavailable()
    return None
