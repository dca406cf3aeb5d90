"""Use cases that decide on dead letters. Each takes an open transaction, never commits, and is audited.

`by` is the operator; None is the command line.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.dead_letters.letters.model import Filter, Letter, LetterId, OpenLetter
from catraca.domains.dead_letters.letters.service import command_line_mark, record_audit
from catraca.domains.dead_letters.letters.store import read_letter, read_letters
from catraca.domains.dead_letters.replay import store
from catraca.domains.dead_letters.replay.errors import (
    DeadLetterBodyUnfit,
    DeadLetterFilterEmpty,
    DeadLetterNotJson,
    DeadLetterQueueGone,
    DeadLetterReplayed,
)
from catraca.domains.dead_letters.replay.model import (
    BODY_MAX_BYTES,
    BULK_MAX_LETTERS,
    RATE_DEFAULT_PER_SECOND,
    Outcome,
)
from catraca.platform.bus.handlers import Unreadable
from catraca.platform.database import Db, audit, outbox
from catraca.platform.errors import BodyTooLarge, NotFound

MATCHES_MAX_COUNT = 100_000
BODIES_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A queue that takes replays. Roles list them.

    `check` raises `Unreadable` if the queue cannot read this body under this key. `on_discard` is called with
    letters that will not be replayed: discarded, or still waiting at the end of their retention.
    """

    check: Callable[[str, bytes], None]
    on_discard: Callable[[Db, Sequence[OpenLetter]], Awaitable[None]] | None = None


ReplayTargets = Mapping[str, ReplayTarget]


async def edit_letter(
    db: Db, letter_id: LetterId, body: bytes, *, targets: ReplayTargets, by: UUID | None
) -> OpenLetter:
    """Replace the body by one that the letter's queue can read; the letter then waits.

    A replay that has not left yet is withdrawn.
    """
    if len(body) > BODY_MAX_BYTES:
        raise BodyTooLarge(limit_bytes=BODY_MAX_BYTES)
    letter = await _lock_letter(db, letter_id)
    try:
        if target := targets.get(letter.queue):
            target.check(letter.key, body)
    except Unreadable as error:
        raise DeadLetterBodyUnfit(queue=letter.queue, key=letter.key, reason=error.code) from None
    await outbox.withdraw(db, [letter_id])
    if not await store.update_body(db, letter_id, body, by=by):
        raise DeadLetterBodyUnfit(queue=letter.queue, key=letter.key, reason="malformed_json")
    await record_audit(db, "dead_letter_edited", letter, by=by)
    return await _lock_letter(db, letter_id)


async def replay_letter(db: Db, letter_id: LetterId, *, targets: ReplayTargets, by: UUID | None) -> Letter:
    """Send the message again to the queue it died in, and to no other, with its own id.

    Allowed in every state and safe to repeat: a message that was handled is not handled again.
    """
    letter = await _lock_letter(db, letter_id)
    if letter.queue not in targets:
        raise DeadLetterQueueGone(queue=letter.queue)
    if not letter.is_json:
        raise DeadLetterNotJson
    await _replay(db, [letter_id], rate_per_second=RATE_DEFAULT_PER_SECOND, by=by)
    await record_audit(db, "dead_letter_replayed", letter, by=by)
    return await _lock_letter(db, letter_id)


async def replay_letters(
    db: Db,
    wanted: Filter,
    *,
    everything: bool = False,
    rate_per_second: float = RATE_DEFAULT_PER_SECOND,
    limit: int = BULK_MAX_LETTERS,
    dry_run: bool,
    targets: ReplayTargets,
    by: UUID | None,
) -> Outcome:
    """Replay the letters of a filter, the oldest first, at a limited rate. A dry run only counts."""
    _refuse_empty(wanted, everything=everything)
    matched = await store.count_letters(db, wanted, at_most=MATCHES_MAX_COUNT)
    refused = await store.count_letters(db, wanted, at_most=MATCHES_MAX_COUNT, not_replayable_to=targets)
    done = min(matched - refused, limit)
    if not dry_run:
        chosen = await store.lock_replayable(db, wanted, targets, limit=limit)
        await _replay(db, chosen, rate_per_second=rate_per_second, by=by)
        done = len(chosen)
    outcome = Outcome(
        dry_run=dry_run,
        matched=matched,
        done=done,
        refused=refused,
        left=max(0, matched - refused - done),
        seconds=max(0, done - 1) / rate_per_second,
    )
    if not dry_run:
        await _record_bulk(
            db, "dead_letters_replayed", wanted, outcome, by=by, rate_per_second=rate_per_second
        )
    return outcome


async def discard_letter(
    db: Db, letter_id: LetterId, *, reason: str, targets: ReplayTargets, by: UUID | None
) -> Letter:
    """Mark a letter as not to be replayed. It can be read until its retention ends.

    A replay that has not left yet is withdrawn; otherwise a replayed letter is refused. Discarding a
    discarded letter changes nothing.
    """
    letter = await _lock_letter(db, letter_id)
    if letter.state == "discarded":
        return letter
    if not await outbox.withdraw(db, [letter_id]) and letter.state == "replayed":
        raise DeadLetterReplayed
    await _discard(db, [letter], reason=reason, targets=targets, by=by)
    await record_audit(db, "dead_letter_discarded", letter, by=by)
    return await _lock_letter(db, letter_id)


async def discard_letters(
    db: Db,
    wanted: Filter,
    *,
    everything: bool = False,
    reason: str,
    limit: int = BULK_MAX_LETTERS,
    dry_run: bool,
    targets: ReplayTargets,
    by: UUID | None,
) -> Outcome:
    """Discard the waiting letters of a filter, the oldest first. A dry run only counts."""
    _refuse_empty(wanted, everything=everything)
    matched = await store.count_letters(db, wanted, at_most=MATCHES_MAX_COUNT)
    done = min(matched, limit)
    if not dry_run:
        letters = await store.lock_waiting(db, wanted, limit=limit)
        await outbox.withdraw(db, [letter.id for letter in letters])
        await _discard(db, letters, reason=reason, targets=targets, by=by)
        done = len(letters)
    outcome = Outcome(dry_run=dry_run, matched=matched, done=done, left=max(0, matched - done))
    if not dry_run:
        await _record_bulk(db, "dead_letters_discarded", wanted, outcome, by=by)
    return outcome


async def report_discarded(db: Db, letters: Sequence[Letter], *, targets: ReplayTargets) -> None:
    """Call `on_discard` of each queue with its letters, a bounded number of bodies at a time."""
    for queue, target in targets.items():
        if target.on_discard is None:
            continue
        ids = [letter.id for letter in letters if letter.queue == queue]
        for start in range(0, len(ids), BODIES_AT_ONCE):
            await target.on_discard(db, await read_letters(db, ids[start : start + BODIES_AT_ONCE]))


async def _lock_letter(db: Db, letter_id: LetterId) -> OpenLetter:
    letter = await read_letter(db, letter_id, lock=True)
    if letter is None:
        raise NotFound
    return letter


async def _replay(db: Db, letter_ids: Sequence[LetterId], *, rate_per_second: float, by: UUID | None) -> None:
    await store.replay_letters(db, letter_ids, rate_per_second=rate_per_second, by=by)
    db.notify(outbox.WAKE_TOPIC)


async def _discard(
    db: Db, letters: Sequence[Letter], *, reason: str, targets: ReplayTargets, by: UUID | None
) -> None:
    await store.discard_letters(db, [letter.id for letter in letters], reason=reason, by=by)
    await report_discarded(db, letters, targets=targets)


def _refuse_empty(wanted: Filter, *, everything: bool) -> None:
    if wanted.is_empty and not everything:
        raise DeadLetterFilterEmpty


async def _record_bulk(
    db: Db, action: str, wanted: Filter, outcome: Outcome, *, by: UUID | None, **more: object
) -> None:
    counts = {"matched": outcome.matched, "done": outcome.done, "refused": outcome.refused}
    await audit.record(
        db,
        actor_id=by,
        action=action,
        subject_kind="dead_letters",
        subject_id=wanted.queue or "all queues",
        data={"filter": wanted.given, **counts, **more} | command_line_mark(by),
    )
