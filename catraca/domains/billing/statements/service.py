"""Read the statement of a driver's account."""

from uuid import UUID

from catraca.domains.billing.statements import store
from catraca.domains.billing.statements.model import Statement
from catraca.platform.database import Db


async def read_statement(
    db: Db, driver_id: UUID, *, currency: str, before: int | None, limit: int
) -> Statement:
    return Statement(
        currency=currency,
        balance_cents=await store.read_balance(db, driver_id, currency=currency),
        entries=await store.read_entries(db, driver_id, currency=currency, before=before, limit=limit),
    )
