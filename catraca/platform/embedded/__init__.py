"""PostgreSQL and Redis as child processes of `catraca up`, with their data under the state folder."""

from catraca.platform.embedded.errors import (
    DataFolderForeign,
    EmbeddedFailure,
    EmbeddedServerFailed,
    ProgramsMissing,
    StateFolderInUse,
    StateFolderUnusable,
)
from catraca.platform.embedded.locks import StateFolder, lock_state_dir
from catraca.platform.embedded.postgres import EmbeddedPostgres
from catraca.platform.embedded.redis_server import EmbeddedRedis

__all__ = [
    "DataFolderForeign",
    "EmbeddedFailure",
    "EmbeddedPostgres",
    "EmbeddedRedis",
    "EmbeddedServerFailed",
    "ProgramsMissing",
    "StateFolder",
    "StateFolderInUse",
    "StateFolderUnusable",
    "lock_state_dir",
]
