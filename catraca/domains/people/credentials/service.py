"""Use cases on passwords. Most take an open transaction and never commit.

`check_password` and `set_password` begin their own through `transact`: hashing is slow and must not keep a
transaction open.
"""

from datetime import timedelta
from uuid import UUID

from catraca.domains.people import store as users
from catraca.domains.people.credentials import store
from catraca.domains.people.credentials.errors import (
    CredentialsInvalid,
    PasswordIsEmail,
    PasswordLinkInvalid,
)
from catraca.domains.people.credentials.model import Login, PasswordLink
from catraca.domains.people.model import User, UserId
from catraca.domains.people.service import lock_active_user, record_audit
from catraca.platform.database import Db, Transact
from catraca.platform.ids import new_token, token_digest
from catraca.platform.lines import fold_email
from catraca.platform.passwords import Passwords


async def check_password(transact: Transact, passwords: Passwords, *, email: str, password: str) -> Login:
    """The user with this e-mail and password; every failure has the same answer and takes the same time.

    The login is dated before the check, so a password set or tokens revoked during the check also cover the
    token made from it.
    """
    login = await transact(lambda db: store.read_login(db, fold_email(email)))
    known_hash = login.password_hash if login else None
    if not await passwords.matches(password, known_hash) or login is None or known_hash is None:
        raise CredentialsInvalid
    if passwords.is_outdated(known_hash):
        new = await passwords.hash(password)
        await transact(lambda db: store.replace_password_hash(db, login.user_id, old=known_hash, new=new))
    return login


async def issue_password_link(db: Db, user_id: UserId, *, lifetime: timedelta, by: UUID) -> PasswordLink:
    """A new one-use link; it replaces an unused one. Only the hash of its token is stored."""
    await lock_active_user(db, user_id)
    token = new_token()
    await store.delete_unused_links(db, user_id)
    expires_at = await store.insert_link(db, user_id, token_sha256=token_digest(token), lifetime=lifetime)
    await record_audit(db, "password_link_issued", user_id, by=by)
    return PasswordLink(token, expires_at)


async def offer_first_password(db: Db, user_id: UserId, *, token: str, lifetime: timedelta) -> User | None:
    """Make this token a link to a new user's first password; returns the user if the link can be used.

    Safe to repeat with the same token. None if the user has a password already, or an operator has issued a
    link meanwhile.
    """
    await users.lock_user(db, user_id)
    user = await users.read_user(db, user_id)
    if user is None or user.email is None or user.has_password:
        return None
    link = token_digest(token)
    await store.insert_link_if_none(db, user_id, token_sha256=link, lifetime=lifetime)
    return user if await store.read_link_owner(db, link) is not None else None


async def set_password(transact: Transact, passwords: Passwords, *, token: str, password: str) -> None:
    """Set a password with a link. Of many calls with one link, one succeeds."""
    link = token_digest(token)
    owner = await transact(lambda db: store.read_link_owner(db, link))
    if owner is None:
        raise PasswordLinkInvalid
    if fold_email(password) == owner["email_folded"]:
        raise PasswordIsEmail
    password_hash = await passwords.hash(password)
    await transact(lambda db: _use_link(db, UserId(owner["id"]), link, password_hash))


async def _use_link(db: Db, user_id: UserId, link: bytes, password_hash: str) -> None:
    await users.lock_user(db, user_id)
    if not await store.use_link(db, link):
        raise PasswordLinkInvalid
    await store.set_password(db, user_id, password_hash)


async def read_unused_link(db: Db, user_id: UserId) -> bytes | None:
    """The digest of the user's link, if it can be used."""
    return await store.read_unused_link(db, user_id)


async def grant_link_again(db: Db, link: bytes) -> None:
    """Let this link outlast a revocation in the same transaction. Safe to repeat."""
    await store.grant_again(db, link)


async def export_password_links(db: Db, user_id: UserId) -> list[dict[str, object]]:
    return [dict(link) for link in await store.read_links(db, user_id)]


async def erase_password_links(db: Db, user_id: UserId) -> None:
    await store.delete_links(db, user_id)
