"""Use cases on changes of e-mail addresses. Most take an open transaction and never commit.

`confirm_change` begins its own through `transact`: a counted try must be committed though the code is wrong.
"""

from dataclasses import dataclass
from uuid import UUID

from catraca.domains.people import store as users
from catraca.domains.people.email_changes import store
from catraca.domains.people.email_changes.errors import EmailCodeInvalid
from catraca.domains.people.email_changes.model import (
    CHANGE_LIFETIME,
    TRIES,
    EmailChange,
    EmailCodes,
    LetterKind,
    code_letter,
    notice_letter,
    taken_letter,
)
from catraca.domains.people.model import User, UserId
from catraca.domains.people.service import get_user, lock_active_user, record_audit
from catraca.events import UserEmailChangeRequested
from catraca.platform.database import Db, Transact, outbox
from catraca.platform.errors import NotFound
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.ids import new_id
from catraca.platform.lines import fold_email
from catraca.platform.mail import Letter


@dataclass(frozen=True, slots=True)
class EmailLimits:
    """How often a user can ask for another address, and how often all users can ask for one address."""

    limiter: RateLimiter
    changes: RateLimit

    async def demand(self, user_id: UserId, email: str) -> None:
        """Count one change; raises `TooManyRequests`."""
        await self.limiter.demand(f"email-change:user:{user_id}", self.changes)
        await self.limiter.demand(f"email-change:to:{fold_email(email)}", self.changes)


async def change_email(db: Db, user: User, email: str | None, limits: EmailLimits) -> None:
    """Begin to change the address of a locked user. Another address counts once it is confirmed.

    The caller cannot see whether the address is another user's: that is in the letter to its mailbox. No
    address, and the present one in another spelling, count at once and end a pending change. A repeat does
    nothing while the change can be confirmed.
    """
    if email is None or (user.email is not None and fold_email(email) == fold_email(user.email)):
        await store.delete_change(db, user.id)
        await store.set_email(db, user.id, email)
        return
    pending = await store.read_change(db, user.id, tries=TRIES)
    if pending is not None and pending.is_open and pending.email == email:
        return
    await limits.demand(user.id, email)
    change_id = new_id()
    await store.put_change(db, user.id, change_id, email=email, lifetime=CHANGE_LIFETIME)
    letters: list[LetterKind] = ["code"] if user.email is None else ["code", "notice"]
    await outbox.record(
        db,
        *(UserEmailChangeRequested(user_id=user.id, change_id=change_id, letter=kind) for kind in letters),
    )


async def confirm_change(transact: Transact, user_id: UserId, codes: EmailCodes, code: str) -> None:
    """Make the new address count; each call uses up one try. Of many calls with the code, one succeeds."""
    change = await transact(lambda db: store.count_try(db, user_id, tries=TRIES))
    if change is None or not codes.matches(change.id, code):
        raise EmailCodeInvalid
    await transact(lambda db: _apply(db, user_id, change))


async def _apply(db: Db, user_id: UserId, change: EmailChange) -> None:
    await users.lock_user(db, user_id)
    email = await store.take_change(db, user_id, change_id=change.id)
    if email is None:
        raise EmailCodeInvalid
    await store.set_email(db, user_id, email)


async def confirm_for_user(db: Db, user_id: UserId, *, by: UUID) -> User:
    """An operator's confirmation, without the code: for places without a mail server. Audited."""
    await lock_active_user(db, user_id)
    email = await store.take_change(db, user_id)
    if email is None:
        raise NotFound
    await store.set_email(db, user_id, email)
    await record_audit(db, "email_confirmed", user_id, by=by)
    return await get_user(db, user_id)


async def compose_letter(
    db: Db, user_id: UserId, change_id: UUID, kind: LetterKind, codes: EmailCodes
) -> Letter | None:
    """The letter of a change; None if the change has ended or was replaced. The same for each repeat."""
    change = await store.read_change(db, user_id, tries=TRIES)
    user = await users.read_user(db, user_id)
    if change is None or user is None or change.id != change_id or not change.is_open:
        return None
    if kind == "notice":
        return None if user.email is None else notice_letter(user.email, user.language)
    owner = await store.read_other_owner(db, user_id, email=change.email)
    if owner is not None:
        return taken_letter(change.email, owner["language"])
    return code_letter(change.email, codes.of(change_id), user.language)
