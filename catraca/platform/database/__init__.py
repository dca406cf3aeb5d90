"""PostgreSQL: pool, transactions, outbox, inbox, timers, idempotency keys, audit log, migrations."""

from catraca.platform.database.connection import DatabaseLimits, Db, Row, Transact
from catraca.platform.database.transactions import (
    PREFER_INDEXES,
    RESERVED_CONNECTIONS,
    Database,
    GenericPlans,
    TransactionAborted,
    use_custom_plans,
)

__all__ = [
    "PREFER_INDEXES",
    "RESERVED_CONNECTIONS",
    "Database",
    "DatabaseLimits",
    "Db",
    "GenericPlans",
    "Row",
    "Transact",
    "TransactionAborted",
    "use_custom_plans",
]
