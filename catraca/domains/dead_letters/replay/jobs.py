"""Retention of dead letters."""

from datetime import timedelta

from catraca.domains.dead_letters.replay import store
from catraca.domains.dead_letters.replay.service import ReplayTargets, report_discarded
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_dead_letters(db: Db, *, older_than: timedelta, targets: ReplayTargets) -> int:
    """Delete old letters, a bounded number per call; returns how many. Waiting ones count as discarded."""
    letters = await store.lock_old(db, older_than=older_than, limit=PRUNED_AT_ONCE)
    await report_discarded(db, [letter for letter in letters if letter.state == "waiting"], targets=targets)
    await store.delete_letters(db, [letter.id for letter in letters])
    return len(letters)
