"""Use cases on stored dead letters. Each takes an open transaction and never commits.

`by` is the operator; None is the command line.
"""

from collections.abc import Sequence
from uuid import UUID

from catraca.domains.dead_letters.letters import store
from catraca.domains.dead_letters.letters.model import (
    Filter,
    Group,
    Letter,
    LetterId,
    ListedLetter,
    OpenLetter,
)
from catraca.domains.people import PersonalData, UserId
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound


async def find_letters(
    db: Db, wanted: Filter, *, after: LetterId | None, limit: int
) -> Sequence[ListedLetter]:
    """A page of letters, the newest first, without the values in their bodies."""
    return await store.find_letters(db, wanted, after=after, limit=limit)


async def find_groups(db: Db) -> Sequence[Group]:
    """The waiting letters by queue and reason."""
    return await store.find_groups(db)


async def open_letter(db: Db, letter_id: LetterId, *, by: UUID | None) -> OpenLetter:
    """The letter with its body. The read is audited."""
    letter = await store.read_letter(db, letter_id)
    if letter is None:
        raise NotFound
    await record_audit(db, "dead_letter_read", letter, by=by)
    return letter


async def record_audit(db: Db, action: str, letter: Letter, *, by: UUID | None) -> None:
    """Without the operator's reason: it is stored with the letter and pruned with it."""
    await audit.record(
        db,
        actor_id=by,
        action=action,
        subject_kind="dead_letter",
        subject_id=letter.id,
        data={"queue": letter.queue, "message_id": letter.message_id} | command_line_mark(by),
    )


def command_line_mark(by: UUID | None) -> dict[str, object]:
    return {"by": "command line"} if by is None else {}


async def _export(db: Db, user_id: UserId) -> object:
    return [dict(letter) for letter in await store.read_letters_about(db, user_id)]


PERSONAL_DATA = PersonalData("dead_letters", export=_export, erase=store.erase_letters_about)
