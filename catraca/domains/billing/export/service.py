"""Write the ledger as text."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from catraca.domains.billing.export import store
from catraca.domains.billing.export.model import (
    Format,
    beancount_footer,
    beancount_header,
    beancount_text,
    csv_header,
    csv_text,
)
from catraca.platform.database import Db

# A transfer has fewer postings, so that a page never ends with a part of the first one.
PAGE = 5000
BEFORE_ALL = (UUID(int=0), 0)


async def export_ledger(
    db: Db, form: Format, write: Callable[[str], object], told: Callable[[int, int], object]
) -> None:
    """Write all postings as they are at this moment. Must be the first work of the transaction.

    `told` gets how many are written, and how many there are.
    """
    await store.read_as_of_now(db)
    found = await store.first_and_last(db)
    first, last, count = found or (now := datetime.now(UTC), now, 0)
    balances = await store.read_balances(db) if form == "beancount" else []
    write(csv_header() if form == "csv" else beancount_header(balances, first.astimezone(UTC).date()))
    done, place = 0, BEFORE_ALL
    while page := await store.postings_after(db, place, limit=PAGE):
        if len(page) == PAGE:
            # The last transfer may go on: it is read again, whole, with the next page.
            page = [one for one in page if one.transfer_id != page[-1].transfer_id]
        write(csv_text(page) if form == "csv" else beancount_text(page))
        done, place = done + len(page), (page[-1].transfer_id, page[-1].n)
        told(done, count)
    if form == "beancount":
        write(beancount_footer(balances, last.astimezone(UTC).date()))
