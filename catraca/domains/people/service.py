"""Use cases on people. Each takes an open transaction and never commits.

Two begin their own through `transact`, because hashing a password is slow and must not hold one open.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.people import model, store
from catraca.domains.people.errors import (
    CredentialsInvalid,
    PasswordIsEmail,
    PasswordLinkInvalid,
)
from catraca.domains.people.model import (
    Approval,
    ApprovalRule,
    DriverChange,
    Login,
    NewPerson,
    Role,
    Standing,
    User,
    UserChange,
    UserId,
    Verdict,
)
from catraca.events import UserCreated
from catraca.platform.database import Db, Transact, audit, outbox
from catraca.platform.database.idempotency import forget_responses
from catraca.platform.errors import Forbidden, NotFound, TokenRevoked
from catraca.platform.passwords import Passwords

LINK_BYTES = 32


@dataclass(frozen=True, slots=True)
class PersonalData:
    """What one domain keeps of a person: how it is told, and how it goes. Roles list all domains' own."""

    section: str
    export: Callable[[Db, UserId], Awaitable[object]]
    erase: Callable[[Db, UserId], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PasswordLink:
    token: str
    expires_at: datetime


async def ensure_user(
    db: Db, user_id: UUID, *, roles: Iterable[str], driver_approval: ApprovalRule
) -> datetime | None:
    """Make the person, and the driver, on first use; answers since when their tokens count.

    Safe to repeat and to race. Of a known person's later tokens only the role `driver` is kept; other roles
    hold as long as the token that brings them.
    """
    roles = frozenset(roles)
    is_new = await store.insert_user_if_new(db, user_id, roles=roles)
    if "driver" in roles:
        await store.insert_driver_if_new(db, user_id, approval=model.first_approval(driver_approval))
    if is_new:
        await outbox.record(db, UserCreated(user_id=user_id, roles=tuple(sorted(roles))))
    standing = (await store.read_standings(db, [user_id])).get(user_id)
    return standing.tokens_valid_after if standing else None


async def standings_of(db: Db, bearers: Sequence[tuple[UUID, frozenset[str]]]) -> list[Standing | None]:
    """What is known of tokens' bearers, by id and roles; None where `ensure_user` has something to make."""
    known = await store.read_standings(db, {user_id for user_id, _ in bearers})
    return [_if_complete(known.get(user_id), roles) for user_id, roles in bearers]


def _if_complete(known: Standing | None, roles: frozenset[str]) -> Standing | None:
    if known is None or not (known.drives or known.erased or "driver" not in roles):
        return None
    return known


async def get_user(db: Db, user_id: UserId) -> User:
    user = await store.read_user(db, user_id)
    if user is None:
        raise NotFound
    return user


async def get_users(db: Db, user_ids: Iterable[UserId]) -> dict[UserId, User]:
    """Those of the people who exist, by id; the erased among them have no name."""
    return {user.id: user for user in await store.read_users(db, user_ids)}


async def hold_users(db: Db, user_ids: Collection[UserId]) -> dict[UserId, User]:
    """The same, and as they are until the transaction ends: for whoever writes down what is theirs."""
    await store.lock_users_as_they_are(db, user_ids)
    return await get_users(db, user_ids)


async def get_self(db: Db, user_id: UserId) -> User:
    """The caller; a token that outlived its person by a moment is refused as revoked."""
    user = await store.read_user(db, user_id)
    if user is None or user.erased_at is not None:
        raise TokenRevoked
    return user


async def find_users(
    db: Db, *, role: str | None, approval: Approval | None, after: UUID | None, limit: int
) -> Sequence[User]:
    return await store.find_users(db, role=role, approval=approval, after=after, limit=limit)


async def may_drive(db: Db, user_id: UserId) -> bool:
    """Whether the person is a driver who may take rides now: approved, and not erased."""
    return await store.may_drive(db, user_id)


async def who_may_drive(db: Db, user_ids: Iterable[UUID]) -> set[UUID]:
    """The same, of many: those who may."""
    return await store.who_may_drive(db, user_ids)


async def change_self(
    db: Db,
    user_id: UserId,
    change: UserChange,
    driver_change: DriverChange | None,
    *,
    driver_approval: ApprovalRule,
) -> User:
    """Change the caller's own profile. Repeating it changes nothing more."""
    await store.lock_user(db, user_id)
    user = await get_self(db, user_id)
    if change:
        await store.update_user(db, replace(user, **change))
    if driver_change is not None:
        if user.driver is None:
            raise Forbidden
        driver = model.changed_driver(user.driver, driver_change, rule=driver_approval)
        await store.update_driver(db, user_id, driver)
    return await get_self(db, user_id)


async def decide_approval(
    db: Db, driver_id: UserId, verdict: Verdict, *, reason: str | None, by: UUID
) -> User:
    """An operator's word on a driver; the last one counts."""
    user = await _hold(db, driver_id)
    if user.driver is None:
        raise NotFound
    await store.set_approval(db, driver_id, verdict, reason=reason, by=by)
    await _record(db, f"driver_{verdict}", driver_id, by=by)
    return await get_user(db, driver_id)


async def decide_roles(
    db: Db, user_id: UserId, roles: Iterable[Role], *, driver_approval: ApprovalRule, by: UUID
) -> User:
    """What a person may do from now on; tokens with the old roles stop counting. The last word counts."""
    user = await _hold(db, user_id)
    roles = frozenset(roles)
    if user.driver is None and "driver" in roles:
        approval = model.first_approval(driver_approval)
        await store.insert_driver_if_new(db, user_id, approval=approval)
    await store.set_roles(db, user_id, roles)
    await store.revoke_tokens(db, user_id)
    await _record(db, "roles_decided", user_id, by=by, data={"from": sorted(user.roles), "to": sorted(roles)})
    return await get_user(db, user_id)


async def sign_out(db: Db, user_id: UserId, *, by: UUID) -> None:
    """Every token the person holds stops counting. An operator's doing is audited."""
    if not await store.revoke_tokens(db, user_id):
        raise NotFound
    if by != user_id:
        await _record(db, "tokens_revoked", user_id, by=by)


async def check_password(transact: Transact, passwords: Passwords, *, email: str, password: str) -> Login:
    """Who signs in with this e-mail and password; every failure looks and lasts the same.

    The answer is dated before the check: a password set or tokens revoked meanwhile cover its token too.
    """
    login = await transact(lambda db: store.read_login(db, model.fold_email(email)))
    known_hash = login.password_hash if login else None
    if not await passwords.matches(password, known_hash) or login is None or known_hash is None:
        raise CredentialsInvalid
    if passwords.is_outdated(known_hash):
        new = await passwords.hash(password)
        await transact(lambda db: store.replace_password_hash(db, login.user_id, old=known_hash, new=new))
    return login


async def issue_password_link(db: Db, user_id: UserId, *, lifetime: timedelta, by: UUID) -> PasswordLink:
    """A one-use link in place of any unused one. Only its hash is kept, so it cannot be told again."""
    await _hold(db, user_id)
    token = secrets.token_urlsafe(LINK_BYTES)
    await store.delete_unused_links(db, user_id)
    expires_at = await store.insert_password_link(db, user_id, token_sha256=_sha256(token), lifetime=lifetime)
    await _record(db, "password_link_issued", user_id, by=by)
    return PasswordLink(token, expires_at)


async def offer_first_password(db: Db, user_id: UserId, *, token: str, lifetime: timedelta) -> User | None:
    """Let a newcomer set a first password with this token; None when there is none to set any more.

    Safe to repeat with the same token. A link that an operator has handed out meanwhile goes first.
    """
    await store.lock_user(db, user_id)
    user = await store.read_user(db, user_id)
    if user is None or user.email is None or user.has_password:
        return None
    link = _sha256(token)
    await store.insert_password_link_if_none(db, user_id, token_sha256=link, lifetime=lifetime)
    return user if await store.link_owner(db, link) is not None else None


async def set_password(transact: Transact, passwords: Passwords, *, token: str, password: str) -> None:
    """Set a password with a link: of any number of tries with one link, one succeeds."""
    link = _sha256(token)
    owner = await transact(lambda db: store.link_owner(db, link))
    if owner is None:
        raise PasswordLinkInvalid
    if model.fold_email(password) == owner["email_folded"]:
        raise PasswordIsEmail
    password_hash = await passwords.hash(password)
    await transact(lambda db: _use_link(db, UserId(owner["id"]), link, password_hash))


async def _use_link(db: Db, user_id: UserId, link: bytes, password_hash: str) -> None:
    await store.lock_user(db, user_id)
    if not await store.use_password_link(db, link):
        raise PasswordLinkInvalid
    await store.set_password(db, user_id, password_hash)


async def export_person(
    db: Db, user_id: UserId, personal_data: Sequence[PersonalData], *, by: UUID
) -> dict[str, object]:
    """All that is kept of a person, one section a domain. An operator's reading is audited first."""
    await get_user(db, user_id)
    if by != user_id:
        await _record(db, "person_exported", user_id, by=by)
    return {part.section: await part.export(db, user_id) for part in personal_data}


async def erase_person(db: Db, user_id: UserId, personal_data: Sequence[PersonalData], *, by: UUID) -> None:
    """Let every domain forget the person, all or none. Erasing again is safe."""
    if not await store.lock_user(db, user_id):
        raise NotFound
    for part in personal_data:
        await part.erase(db, user_id)
    await _record(db, "person_erased", user_id, by=by)


async def add_people(db: Db, people: Sequence[NewPerson]) -> set[UUID]:
    """Put in whoever signed up; answers who. Left out are those whose id or address somebody has."""
    new = await store.insert_people(db, people)
    await outbox.record(
        db, *(UserCreated(user_id=p.id, roles=(p.role,), signed_up=True) for p in people if p.id in new)
    )
    return new


async def add_first_people(db: Db, people: Sequence[NewPerson]) -> bool:
    """Put these people in if there are none at all yet; answers whether it did. Two at once do it once."""
    if await store.has_users(db):
        return False
    new = await store.insert_people(db, people)
    await outbox.record(db, *(UserCreated(user_id=p.id, roles=(p.role,)) for p in people if p.id in new))
    await store.insert_drivers(db, [person for person in people if person.role == "driver"])
    return True


async def _export(db: Db, user_id: UserId) -> object:
    user = await get_user(db, user_id)
    links = await store.read_password_links(db, user_id)
    return {**asdict(user), "password_links": [dict(link) for link in links]}


async def _erase(db: Db, user_id: UserId) -> None:
    await store.delete_password_links(db, user_id)
    await store.erase_driver(db, user_id)
    await store.erase_user(db, user_id)
    await forget_responses(db, user_id)


async def _export_audit(db: Db, user_id: UserId) -> object:
    return [dict(entry) for entry in await audit.entries_about(db, "user", user_id)]


async def _keep_audit(db: Db, user_id: UserId) -> None:
    """What was done to a person stays on record; it holds ids only."""


PERSONAL_DATA = PersonalData("people", export=_export, erase=_erase)
AUDIT_DATA = PersonalData("audit", export=_export_audit, erase=_keep_audit)


async def _hold(db: Db, user_id: UserId) -> User:
    """Lock and read a person who is there and not erased."""
    await store.lock_user(db, user_id)
    user = await get_user(db, user_id)
    if user.erased_at is not None:
        raise NotFound
    return user


async def _record(
    db: Db, action: str, user_id: UserId, *, by: UUID, data: dict[str, object] | None = None
) -> None:
    await audit.record(db, actor_id=by, action=action, subject_kind="user", subject_id=user_id, data=data)


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
