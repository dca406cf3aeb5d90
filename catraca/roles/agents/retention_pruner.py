"""Deletes rows that have passed their retention, in short transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from catraca.domains.analytics.store import prune_demand, prune_windows
from catraca.domains.dead_letters.replay.jobs import prune_dead_letters
from catraca.domains.geofences.confirmations.store import prune_confirmations
from catraca.domains.location.sharing.store import prune_shares
from catraca.domains.matching.candidates.store import prune_searches
from catraca.domains.notifications.messages.store import prune_notifications
from catraca.domains.notifications.push.store import prune_devices
from catraca.domains.notifications.sockets.store import prune_tickets
from catraca.domains.people.credentials.store import prune_password_links, prune_sign_in_addresses
from catraca.domains.people.email_changes.store import prune_email_changes
from catraca.domains.people.second_factor.store import prune_begun_factors
from catraca.domains.rides.acceptance.service import prune_attempts
from catraca.domains.rides.personal_data.service import erase_old_devices
from catraca.domains.scheduling.jobs import erase_walk_ins, prune_holds
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db
from catraca.platform.database.idempotency import prune_idempotency_keys
from catraca.platform.database.inbox import prune_inbox
from catraca.platform.database.outbox import prune_sent
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within
from catraca.roles.parts import Parts
from catraca.roles.replay_targets import replay_targets
from catraca.roles.runner import Life, repeat

log = structlog.get_logger()

PRUNE_SECONDS = 60.0
MOST_TRANSACTIONS = 200
# Pause after a transaction, as a multiple of its time. Hundreds of thousands of rows can be due, after a
# retention was shortened or the housekeeper was off; deleting them must not slow down other work.
PAUSE_TIMES = 3

# Deletes a bounded number of rows and returns how many; 0 when none is left.
Prune = Callable[[Db], Awaitable[int]]


class RetentionPruner:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stopping = asyncio.Event()

    async def run(self, life: Life) -> None:
        self._stopping = life.stopping
        await repeat(self._prune_or_postpone, PRUNE_SECONDS, life)

    async def _prune_or_postpone(self) -> None:
        try:
            await self.prune()
        except Refusal as refusal:  # the database is unavailable; the next run finds the same rows
            log.warning("pruning_postponed", code=refusal.code)

    async def prune(self) -> None:
        """Delete all that is due now; end early if the process stops.

        Pruners in other processes take other rows (SKIP LOCKED).
        """
        for what, prune in prunes_of(self._parts).items():
            if self._stopping.is_set():
                return
            if pruned := await self._repeat(prune):
                log.info("pruned", what=what, count=pruned)

    async def _repeat(self, prune: Prune) -> int:
        total = 0
        for _ in range(MOST_TRANSACTIONS):
            began = monotonic_seconds()
            pruned = await self._parts.database.run(prune)
            total += pruned
            if pruned == 0 or await within((monotonic_seconds() - began) * PAUSE_TIMES, self._stopping):
                break
        return total


def prunes_of(parts: Parts) -> dict[str, Prune]:
    """What is pruned, by the name that the log gives it."""
    settings, bus = parts.settings, parts.settings.bus
    return {
        "idempotency_keys": partial(prune_idempotency_keys, older_than=settings.http.idempotency_retention),
        "password_links": prune_password_links,
        "sign_in_addresses": prune_sign_in_addresses,
        "second_factors": prune_begun_factors,
        "email_changes": prune_email_changes,
        "outbox_sent": partial(prune_sent, older_than=bus.outbox_retention),
        "inbox": partial(prune_inbox, older_than=bus.inbox_retention),
        "dead_letters": partial(
            prune_dead_letters, older_than=bus.dead_letter_retention, targets=replay_targets(parts.topology)
        ),
        "ride_accept_attempts": partial(prune_attempts, older_than=settings.rides.attempt_retention),
        # After the deletion: only attempts at rides that have not ended are left to read and update.
        "ride_attempt_devices": partial(erase_old_devices, older_than=settings.rides.attempt_retention),
        "matching_searches": partial(prune_searches, older_than=settings.matching.search_retention),
        "notifications": partial(
            prune_notifications, older_than=settings.notifications.notification_retention
        ),
        "push_subscriptions": prune_devices,
        "ws_tickets": prune_tickets,
        "trip_shares": prune_shares,
        "ride_confirmations": prune_confirmations,
        "holds": prune_holds,
        "walk_ins": partial(erase_walk_ins, older_than=settings.scheduling.walk_in_retention),
        "demand": prune_demand,
        "match_windows": prune_windows,
    }
