"""Reading, locking and auditing of users: what all features of this domain share."""

from collections.abc import Collection, Iterable
from uuid import UUID

from catraca.domains.people import store
from catraca.domains.people.model import User, UserId
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound


async def get_user(db: Db, user_id: UserId) -> User:
    user = await store.read_user(db, user_id)
    if user is None:
        raise NotFound
    return user


async def get_users(db: Db, user_ids: Iterable[UserId]) -> dict[UserId, User]:
    """The known users by id; an erased user has no name. Unknown ids are left out."""
    return {user.id: user for user in await store.read_users(db, user_ids)}


async def lock_users(db: Db, user_ids: Collection[UserId]) -> dict[UserId, User]:
    """Like `get_users`; the users cannot change or be erased until the transaction ends."""
    await store.lock_users_shared(db, user_ids)
    return await get_users(db, user_ids)


async def lock_active_user(db: Db, user_id: UserId) -> User:
    """Lock a user for a change; an erased user is `NotFound`."""
    await store.lock_user(db, user_id)
    user = await get_user(db, user_id)
    if user.erased_at is not None:
        raise NotFound
    return user


async def record_audit(
    db: Db, action: str, user_id: UserId, *, by: UUID | None, data: dict[str, object] | None = None
) -> None:
    await audit.record(db, actor_id=by, action=action, subject_kind="user", subject_id=user_id, data=data)
