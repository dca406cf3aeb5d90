"""PostgreSQL: pool, transactions, outbox, inbox, timers, idempotency keys, audit log, migrations."""

from catraca.platform.database.transactions import (
    BY_INDEX,
    Database,
    DatabaseLimits,
    Db,
    KeptPlans,
    Row,
    Transact,
    TransactionAborted,
    after_commit,
    announce,
    plan_afresh,
)

__all__ = [
    "BY_INDEX",
    "Database",
    "DatabaseLimits",
    "Db",
    "KeptPlans",
    "Row",
    "Transact",
    "TransactionAborted",
    "after_commit",
    "announce",
    "plan_afresh",
]
