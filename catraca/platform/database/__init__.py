"""PostgreSQL: pool, transactions, outbox, inbox, timers, idempotency keys, audit log, migrations."""

from collections.abc import Callable

from catraca.platform.database.connection import DatabaseLimits, Db, Row, Transact
from catraca.platform.database.transactions import (
    PREFER_INDEXES,
    Database,
    GenericPlans,
    TransactionAborted,
    use_custom_plans,
)

__all__ = [
    "PREFER_INDEXES",
    "Database",
    "DatabaseLimits",
    "Db",
    "GenericPlans",
    "Row",
    "Transact",
    "TransactionAborted",
    "after_commit",
    "announce",
    "use_custom_plans",
]


def announce(db: Db, topic: str) -> None:
    db.notify(topic)


def after_commit(db: Db, act: Callable[[], object]) -> None:
    db.after_commit(act)
