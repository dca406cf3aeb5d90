"""Post transfers to the ledger."""

from catraca.domains.billing.ledger import store
from catraca.domains.billing.ledger.model import Transfer
from catraca.platform.database import Db


async def post_transfer(db: Db, transfer: Transfer) -> None:
    """Post the transfer of a new fact. Fails if it was posted before: the caller inserts the fact once."""
    wanted = {side for posting in transfer.postings for side in (posting.debit, posting.credit)}
    numbers = await store.find_accounts(db, wanted, currency=transfer.currency)
    if missing := wanted - numbers.keys():
        await store.add_accounts(db, list(missing), currency=transfer.currency)
        numbers = await store.find_accounts(db, wanted, currency=transfer.currency)
    await store.insert_transfer(db, transfer, numbers)
