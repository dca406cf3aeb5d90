"""Use cases on drivers. Each takes an open transaction and never commits."""

from collections.abc import Iterable
from uuid import UUID

from catraca.domains.people.drivers import store
from catraca.domains.people.drivers.model import DriverChange, Verdict, changed_driver, first_approval
from catraca.domains.people.model import ApprovalRule, User, UserId
from catraca.domains.people.service import get_user, lock_active_user, record_audit
from catraca.platform.database import Db
from catraca.platform.errors import Forbidden, NotFound


async def make_driver(db: Db, user_id: UUID, *, driver_approval: ApprovalRule) -> None:
    """Give a user the role driver and an empty profile; safe to repeat."""
    await store.insert_driver_if_new(db, user_id, approval=first_approval(driver_approval))


async def may_drive(db: Db, user_id: UserId) -> bool:
    """True for an approved driver who is not erased."""
    return user_id in await store.read_approved(db, [user_id])


async def approved_drivers(db: Db, user_ids: Iterable[UUID]) -> set[UUID]:
    """The users among these for whom `may_drive` is true."""
    return await store.read_approved(db, user_ids)


async def change_driver(db: Db, user: User, change: DriverChange, *, driver_approval: ApprovalRule) -> None:
    """Change the profile of a driver whose user is locked; users without a profile are refused."""
    if user.driver is None:
        raise Forbidden
    await store.update_driver(db, user.id, changed_driver(user.driver, change, rule=driver_approval))


async def decide_approval(
    db: Db, driver_id: UserId, verdict: Verdict, *, reason: str | None, by: UUID
) -> User:
    """Store an operator's decision about a driver; it replaces the last one."""
    user = await lock_active_user(db, driver_id)
    if user.driver is None:
        raise NotFound
    await store.set_approval(db, driver_id, verdict, reason=reason, by=by)
    await record_audit(db, f"driver_{verdict}", driver_id, by=by)
    return await get_user(db, driver_id)
