"""Use cases on accounts. Each takes an open transaction and never commits."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from catraca.domains.people import store as users
from catraca.domains.people.accounts import store
from catraca.domains.people.accounts.model import NewUser, Standing, UserChange
from catraca.domains.people.credentials.service import (
    erase_credentials,
    export_credentials,
)
from catraca.domains.people.credentials.store import grant_again, read_unused_link
from catraca.domains.people.drivers.model import DriverChange
from catraca.domains.people.drivers.service import (
    change_driver,
    make_driver,
)
from catraca.domains.people.drivers.store import erase_driver, insert_approved_drivers
from catraca.domains.people.email_changes.service import EmailLimits, change_email
from catraca.domains.people.email_changes.store import delete_change
from catraca.domains.people.model import Approval, ApprovalRule, Role, User, UserId
from catraca.domains.people.second_factor.service import export_factor
from catraca.domains.people.second_factor.store import delete_factor
from catraca.domains.people.service import get_user, lock_active_user, record_audit
from catraca.events import UserCreated
from catraca.platform.database import Db, outbox
from catraca.platform.database.idempotency import erase_in_responses, forget_responses
from catraca.platform.errors import NotFound, TokenRevoked


@dataclass(frozen=True, slots=True)
class PersonalData:
    """The personal data that one domain stores: how it is exported and erased. Roles list all of them."""

    section: str
    export: Callable[[Db, UserId], Awaitable[object]]
    erase: Callable[[Db, UserId], Awaitable[None]]


async def ensure_user(
    db: Db, user_id: UUID, *, roles: Iterable[str], driver_approval: ApprovalRule
) -> datetime | None:
    """Insert the user, and the driver profile, on first use; returns the time from which tokens are valid.

    Safe to repeat and to race. Of a known user's later tokens only the role `driver` is stored; other roles
    are valid as long as the token that has them.
    """
    roles = frozenset(roles)
    is_new = await store.insert_user_if_new(db, user_id, roles=roles)
    if "driver" in roles:
        await make_driver(db, user_id, driver_approval=driver_approval)
    if is_new:
        await outbox.record(db, UserCreated(user_id=user_id, roles=tuple(sorted(roles))))
    standing = (await store.read_standings(db, [user_id])).get(user_id)
    return standing.tokens_valid_after if standing else None


async def standings_of(db: Db, callers: Sequence[tuple[UUID, frozenset[str]]]) -> list[Standing | None]:
    """The standing of each caller, given by id and roles; None where `ensure_user` has to be called."""
    known = await store.read_standings(db, {user_id for user_id, _ in callers})
    found = [(known.get(user_id), roles) for user_id, roles in callers]
    return [standing if standing and standing.covers(roles) else None for standing, roles in found]


async def add_users(db: Db, new_users: Sequence[NewUser], *, signed_up: bool = True) -> set[UUID]:
    """Insert users and publish them; returns the inserted ids. A taken id or e-mail is left out."""
    added = await store.insert_users(db, new_users)
    await outbox.record(
        db,
        *(
            UserCreated(user_id=user.id, roles=(user.role,), signed_up=signed_up)
            for user in new_users
            if user.id in added
        ),
    )
    return added


async def add_first_users(db: Db, new_users: Sequence[NewUser]) -> bool:
    """Insert users, drivers among them, if there are no users at all; True if it did."""
    if await store.has_users(db):
        return False
    await add_users(db, new_users, signed_up=False)
    await insert_approved_drivers(
        db, [(user.id, user.vehicle, user.plate) for user in new_users if user.role == "driver"]
    )
    return True


async def get_self(db: Db, user_id: UserId) -> User:
    """The caller; the token of a user who was just erased is refused as revoked."""
    user = await users.read_user(db, user_id)
    if user is None or user.erased_at is not None:
        raise TokenRevoked
    return user


async def find_users(
    db: Db, *, role: str | None, approval: Approval | None, after: UUID | None, limit: int
) -> Sequence[User]:
    return await store.find_users(db, role=role, approval=approval, after=after, limit=limit)


async def change_self(
    db: Db,
    user_id: UserId,
    change: UserChange,
    driver_change: DriverChange | None,
    *,
    driver_approval: ApprovalRule,
    email_limits: EmailLimits,
) -> User:
    """Change the caller's own profile; repeating it changes nothing more.

    Another e-mail address is pending until it is confirmed.
    """
    await users.lock_user(db, user_id)
    user = await get_self(db, user_id)
    if change:
        await store.update_user(db, replace(user, **change))
    if "email" in change:
        await change_email(db, user, change["email"], email_limits)
    if driver_change is not None:
        await change_driver(db, user, driver_change, driver_approval=driver_approval)
    return await get_self(db, user_id)


async def decide_roles(
    db: Db, user_id: UserId, roles: Iterable[Role], *, driver_approval: ApprovalRule, by: UUID
) -> User:
    """Replace a user's roles and revoke the tokens with the old ones.

    An unused password link stays: it is the way in for its owner, who may get roles before the first sign-in.
    """
    user = await lock_active_user(db, user_id)
    roles = frozenset(roles)
    if user.driver is None and "driver" in roles:
        await make_driver(db, user_id, driver_approval=driver_approval)
    link = await read_unused_link(db, user_id)
    await store.set_roles(db, user_id, roles)
    await store.revoke_tokens(db, user_id)
    if link is not None:
        await grant_again(db, link)
    change: dict[str, object] = {"from": sorted(user.roles), "to": sorted(roles)}
    await record_audit(db, "roles_decided", user_id, by=by, data=change)
    return await get_user(db, user_id)


async def sign_out(db: Db, user_id: UserId, *, by: UUID) -> None:
    """Revoke every token of the user, and with them devices, links and tickets (`access_holds`).

    Audited if `by` is not the user.
    """
    if not await store.revoke_tokens(db, user_id):
        raise NotFound
    if by != user_id:
        await record_audit(db, "tokens_revoked", user_id, by=by)


async def export_user(
    db: Db, user_id: UserId, personal_data: Sequence[PersonalData], *, by: UUID
) -> dict[str, object]:
    """All personal data of a user, one section per domain. Audited first if `by` is not the user."""
    await get_user(db, user_id)
    if by != user_id:
        await record_audit(db, "person_exported", user_id, by=by)
    return {part.section: await part.export(db, user_id) for part in personal_data}


async def erase_user(db: Db, user_id: UserId, personal_data: Sequence[PersonalData], *, by: UUID) -> None:
    """Erase the personal data of a user in every domain. Safe to repeat."""
    if not await users.lock_user(db, user_id):
        raise NotFound
    for part in personal_data:
        await part.erase(db, user_id)
    await record_audit(db, "person_erased", user_id, by=by)


async def _export(db: Db, user_id: UserId) -> object:
    user = await get_user(db, user_id)
    return {
        **asdict(user),
        **await export_credentials(db, user_id),
        "second_factor": await export_factor(db, user_id),
    }


async def _erase(db: Db, user_id: UserId) -> None:
    await erase_credentials(db, user_id)
    await delete_factor(db, user_id)
    await delete_change(db, user_id)
    await erase_driver(db, user_id)
    await store.erase_user(db, user_id)
    await forget_responses(db, user_id)
    await erase_in_responses(db, user_id)


PERSONAL_DATA = PersonalData("people", export=_export, erase=_erase)
