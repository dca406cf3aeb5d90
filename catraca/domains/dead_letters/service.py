"""Use cases on dead letters. Each takes an open transaction and never commits; each is written down.

`by` is the operator; None is whoever sits at the machine's own command line.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.dead_letters import store
from catraca.domains.dead_letters.errors import (
    DeadLetterBodyUnfit,
    DeadLetterFilterEmpty,
    DeadLetterNotJson,
    DeadLetterQueueGone,
    DeadLetterReplayed,
)
from catraca.domains.dead_letters.model import (
    BODY_MAX_BYTES,
    BULK_MAX_LETTERS,
    RATE_DEFAULT_PER_SECOND,
    Filter,
    Group,
    Letter,
    LetterId,
    ListedLetter,
    OpenLetter,
    Outcome,
)
from catraca.domains.people import PersonalData, UserId
from catraca.platform.bus.handlers import Unreadable
from catraca.platform.database import Db, announce, audit, outbox
from catraca.platform.errors import BodyTooLarge, NotFound

MATCHES_COUNTED_TO = 100_000
OPENED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class QueueDuty:
    """What a queue has to say of its dead letters. Roles list the queues that take replays.

    `check` raises `Unreadable` for a body that a message with this key could not be handled with. `discarded`
    is told of letters that nobody will replay: discarded, or waiting still when their retention ended.
    """

    check: Callable[[str, bytes], None]
    discarded: Callable[[Db, Sequence[OpenLetter]], Awaitable[None]] | None = None


Duties = Mapping[str, QueueDuty]


async def find_letters(
    db: Db, wanted: Filter, *, after: LetterId | None, limit: int
) -> Sequence[ListedLetter]:
    """A page of them, the newest first, without what their bodies say."""
    return await store.find_letters(db, wanted, after=after, limit=limit)


async def find_groups(db: Db) -> Sequence[Group]:
    """What waits, by queue and reason."""
    return await store.find_groups(db)


async def open_letter(db: Db, letter_id: LetterId, *, by: UUID | None) -> OpenLetter:
    """The letter with its body. That it was read is written down first."""
    letter = await store.read_letter(db, letter_id)
    if letter is None:
        raise NotFound
    await _record(db, "dead_letter_read", letter, by=by)
    return letter


async def edit_letter(
    db: Db, letter_id: LetterId, body: bytes, *, duties: Duties, by: UUID | None
) -> OpenLetter:
    """Put another body in its place, one that its queue can read; it then waits to be replayed.

    A replay that has not left yet is taken back.
    """
    if len(body) > BODY_MAX_BYTES:
        raise BodyTooLarge(limit_bytes=BODY_MAX_BYTES)
    letter = await _hold(db, letter_id)
    try:
        if duty := duties.get(letter.queue):
            duty.check(letter.key, body)
    except Unreadable as error:
        raise DeadLetterBodyUnfit(queue=letter.queue, key=letter.key, reason=error.code) from None
    await outbox.withdraw(db, [letter_id])
    if not await store.update_body(db, letter_id, body, by=by):
        raise DeadLetterBodyUnfit(queue=letter.queue, key=letter.key, reason="malformed_json")
    await _record(db, "dead_letter_edited", letter, by=by)
    return await _hold(db, letter_id)


async def replay_letter(db: Db, letter_id: LetterId, *, duties: Duties, by: UUID | None) -> Letter:
    """Send it to the queue it died in, and to no other, under its own id.

    Whatever its state, and as often as one likes: what was handled once is not handled again.
    """
    letter = await _hold(db, letter_id)
    if letter.queue not in duties:
        raise DeadLetterQueueGone(queue=letter.queue)
    if not letter.is_json:
        raise DeadLetterNotJson
    await _replay(db, [letter_id], rate_per_second=RATE_DEFAULT_PER_SECOND, by=by)
    await _record(db, "dead_letter_replayed", letter, by=by)
    return await _hold(db, letter_id)


async def replay_letters(
    db: Db,
    wanted: Filter,
    *,
    everything: bool = False,
    rate_per_second: float = RATE_DEFAULT_PER_SECOND,
    limit: int = BULK_MAX_LETTERS,
    dry_run: bool,
    duties: Duties,
    by: UUID | None,
) -> Outcome:
    """Replay what the filter means, the oldest first, at most so many a second; or say what that would do."""
    _refuse_forgotten(wanted, everything=everything)
    matched = await store.count_letters(db, wanted, at_most=MATCHES_COUNTED_TO, unfit_for=None)
    refused = await store.count_letters(db, wanted, at_most=MATCHES_COUNTED_TO, unfit_for=duties)
    done = min(matched - refused, limit)
    if not dry_run:
        chosen = await store.lock_replayable(db, wanted, duties, limit=limit)
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
        await _record_many(
            db, "dead_letters_replayed", wanted, outcome, by=by, rate_per_second=rate_per_second
        )
    return outcome


async def discard_letter(
    db: Db, letter_id: LetterId, *, reason: str, duties: Duties, by: UUID | None
) -> Letter:
    """Say that nobody will replay it, and why. It stays to be seen until its retention ends.

    A replay that has not left yet is taken back; one that has cannot be. Discarding it again changes nothing.
    """
    letter = await _hold(db, letter_id)
    if letter.state == "discarded":
        return letter
    if not await outbox.withdraw(db, [letter_id]) and letter.state == "replayed":
        raise DeadLetterReplayed
    await _discard(db, [letter], reason=reason, duties=duties, by=by)
    await _record(db, "dead_letter_discarded", letter, by=by)
    return await _hold(db, letter_id)


async def discard_letters(
    db: Db,
    wanted: Filter,
    *,
    everything: bool = False,
    reason: str,
    limit: int = BULK_MAX_LETTERS,
    dry_run: bool,
    duties: Duties,
    by: UUID | None,
) -> Outcome:
    """Discard what waits and the filter means, the oldest first; or say what that would do."""
    _refuse_forgotten(wanted, everything=everything)
    matched = await store.count_letters(db, wanted, at_most=MATCHES_COUNTED_TO, unfit_for=None)
    done = min(matched, limit)
    if not dry_run:
        letters = await store.lock_waiting(db, wanted, limit=limit)
        await outbox.withdraw(db, [letter.id for letter in letters])
        await _discard(db, letters, reason=reason, duties=duties, by=by)
        done = len(letters)
    outcome = Outcome(dry_run=dry_run, matched=matched, done=done, left=max(0, matched - done))
    if not dry_run:
        await _record_many(db, "dead_letters_discarded", wanted, outcome, by=by)
    return outcome


async def tell_of_discarded(db: Db, letters: Sequence[Letter], *, duties: Duties) -> None:
    """Tell each queue that wants to know, a bounded number of bodies at a time."""
    for queue, duty in duties.items():
        ids = [letter.id for letter in letters if letter.queue == queue]
        for start in range(0, len(ids) if duty.discarded else 0, OPENED_AT_ONCE):
            assert duty.discarded is not None
            await duty.discarded(db, await store.read_letters(db, ids[start : start + OPENED_AT_ONCE]))


async def _export(db: Db, user_id: UserId) -> object:
    return [dict(letter) for letter in await store.read_letters_about(db, user_id)]


async def _erase(db: Db, user_id: UserId) -> None:
    await store.erase_letters_about(db, user_id)


PERSONAL_DATA = PersonalData("dead_letters", export=_export, erase=_erase)


async def _hold(db: Db, letter_id: LetterId) -> OpenLetter:
    letter = await store.read_letter(db, letter_id, lock=True)
    if letter is None:
        raise NotFound
    return letter


async def _replay(db: Db, letter_ids: Sequence[LetterId], *, rate_per_second: float, by: UUID | None) -> None:
    await store.replay_letters(db, letter_ids, rate_per_second=rate_per_second, by=by)
    announce(db, outbox.WAKE_TOPIC)


async def _discard(
    db: Db, letters: Sequence[Letter], *, reason: str, duties: Duties, by: UUID | None
) -> None:
    await store.discard_letters(db, [letter.id for letter in letters], reason=reason, by=by)
    await tell_of_discarded(db, letters, duties=duties)


def _refuse_forgotten(wanted: Filter, *, everything: bool) -> None:
    if wanted.means_everything and not everything:
        raise DeadLetterFilterEmpty


async def _record(db: Db, action: str, letter: Letter, *, by: UUID | None) -> None:
    """Not the words of a reason: those are kept with the letter, and go with it."""
    await audit.record(
        db,
        actor_id=by,
        action=action,
        subject_kind="dead_letter",
        subject_id=letter.id,
        data={"queue": letter.queue, "message_id": letter.message_id} | _at_the_machine(by),
    )


async def _record_many(
    db: Db, action: str, wanted: Filter, outcome: Outcome, *, by: UUID | None, **more: object
) -> None:
    counts = {"matched": outcome.matched, "done": outcome.done, "refused": outcome.refused}
    await audit.record(
        db,
        actor_id=by,
        action=action,
        subject_kind="dead_letters",
        subject_id=wanted.queue or "all queues",
        data={"filter": wanted.given, **counts, **more} | _at_the_machine(by),
    )


def _at_the_machine(by: UUID | None) -> dict[str, object]:
    return {"by": "command line"} if by is None else {}
