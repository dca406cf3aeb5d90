"""What happens to dead letters by the passing of time."""

from datetime import timedelta

from catraca.domains.dead_letters import store
from catraca.domains.dead_letters.service import Duties, tell_of_discarded
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_dead_letters(db: Db, *, older_than: timedelta, duties: Duties) -> int:
    """Remove letters that died longer ago than that, a bounded number; answers how many.

    Of those that still waited nobody made anything: their queues are told, as if they had been discarded.
    """
    letters = await store.lock_old(db, older_than=older_than, limit=PRUNED_AT_ONCE)
    await tell_of_discarded(db, [one for one in letters if one.state == "waiting"], duties=duties)
    await store.delete_letters(db, [letter.id for letter in letters])
    return len(letters)
