"""Use cases on passwords. Most take an open transaction and never commit.

`sign_in`, `check_password` and `set_password` begin their own through `transact`: hashing is slow and must
not keep a transaction open.
"""

import asyncio
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from catraca.domains.people import store as users
from catraca.domains.people.credentials import store
from catraca.domains.people.credentials.errors import (
    CredentialsInvalid,
    PasswordIsEmail,
    PasswordLinkInvalid,
)
from catraca.domains.people.credentials.model import (
    ADDRESS_MEMORY,
    ADDRESSES_PER_USER,
    FAILURES_PER_PAIR,
    AddressMarks,
    Login,
    PasswordLink,
)
from catraca.domains.people.model import User, UserId
from catraca.domains.people.second_factor.errors import SecondFactorWrong
from catraca.domains.people.second_factor.model import CODES_OF_STRANGERS, FactorVault, Proof
from catraca.domains.people.second_factor.service import check_factor
from catraca.domains.people.service import lock_active_user, record_audit
from catraca.platform.database import Db, Transact
from catraca.platform.errors import TooManyRequests
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.ids import new_token, token_digest
from catraca.platform.lines import fold_email
from catraca.platform.passwords import Passwords


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLimits:
    """How often sign-in can be tried. No number of failures elsewhere locks an owner at a known address out.

    Buckets are named by the e-mail as given, so an unknown account has the same limits as a known one.
    """

    limiter: RateLimiter
    per_address: RateLimit
    per_account: RateLimit

    async def admit(self, email: str, address: str, *, known: bool) -> None:
        """Raise `TooManyRequests` unless a sign-in may be tried.

        All unknown addresses together have `per_account`. Attempts are counted there, not failures:
        otherwise many guesses at the same time would all pass before the first of them has failed.
        """
        await self.limiter.demand(f"sign-in:address:{address}", self.per_address)
        wait_seconds = await self.wait_seconds(email, address)
        if wait_seconds is not None:
            raise TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))
        if not known:
            await self.limiter.demand(f"sign-in:email:{fold_email(email)}", self.per_account)

    async def admit_code(self, user_id: UserId) -> None:
        """Like `admit`, for a code from an unknown address: its sender has the password already."""
        await self.limiter.demand(f"sign-in:code:{user_id}", CODES_OF_STRANGERS)

    async def wait_seconds(self, email: str, address: str) -> float | None:
        """How long this account must wait at this address after its failures; None: not at all."""
        waits = await self._hit_pair(email, address, counts=False)
        return max((wait for wait in waits if wait is not None), default=None)

    async def count_failure(self, email: str, address: str) -> None:
        """Make the next wait of this account at this address longer."""
        await self._hit_pair(email, address, counts=True)

    async def _hit_pair(self, email: str, address: str, *, counts: bool) -> list[float | None]:
        bucket = f"sign-in:failures:{fold_email(email)} {address}"
        return await asyncio.gather(
            *(
                self.limiter.hit(f"{bucket} {limit.seconds}", limit, counts=counts)
                for limit in FAILURES_PER_PAIR
            )
        )


async def sign_in(
    transact: Transact,
    passwords: Passwords,
    limits: SignInLimits,
    marks: AddressMarks,
    vault: FactorVault,
    *,
    email: str,
    password: str,
    proof: Proof,
    address: str,
) -> Login:
    """The user with this e-mail, password and second factor; the address is remembered as the user's.

    The second factor is checked after the password: a wrong password has one answer, with or without it.
    """
    mark = marks.of(email, address)
    known = await transact(lambda db: store.knows_address(db, fold_email(email), mark, memory=ADDRESS_MEMORY))
    await limits.admit(email, address, known=known)
    try:
        login = await check_password(transact, passwords, email=email, password=password)
        if proof.is_given and not known:
            await limits.admit_code(login.user_id)
        if await transact(lambda db: check_factor(db, login.user_id, vault, proof)):
            login = replace(login, methods=("pwd", "otp"))
    except (CredentialsInvalid, SecondFactorWrong):
        await limits.count_failure(email, address)
        raise
    await transact(lambda db: _remember_address(db, login.user_id, mark))
    return login


async def _remember_address(db: Db, user_id: UserId, mark: bytes) -> None:
    await store.remember_address(db, user_id, mark)
    await store.keep_newest_addresses(db, user_id, count=ADDRESSES_PER_USER)


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


async def set_password(
    transact: Transact, passwords: Passwords, marks: AddressMarks, *, token: str, password: str, address: str
) -> None:
    """Set a password with a link. Of many calls with one link, one succeeds.

    The address becomes one of the user's: with a link the owner can sign in from a new place, also while
    strangers guess.
    """
    link = token_digest(token)
    owner = await transact(lambda db: store.read_link_owner(db, link))
    if owner is None:
        raise PasswordLinkInvalid
    if fold_email(password) == owner["email_folded"]:
        raise PasswordIsEmail
    password_hash = await passwords.hash(password)
    mark = marks.of(owner["email_folded"] or "", address)
    await transact(lambda db: _use_link(db, UserId(owner["id"]), link, password_hash, mark))


async def _use_link(db: Db, user_id: UserId, link: bytes, password_hash: str, mark: bytes) -> None:
    await users.lock_user(db, user_id)
    if not await store.use_link(db, link):
        raise PasswordLinkInvalid
    await store.set_password(db, user_id, password_hash)
    await _remember_address(db, user_id, mark)


async def export_credentials(db: Db, user_id: UserId) -> dict[str, object]:
    """Without secrets: password links, and when the user signed in from an address for the last time."""
    return {
        "password_links": [dict(link) for link in await store.read_links(db, user_id)],
        "sign_in_addresses": [dict(row) for row in await store.read_addresses(db, user_id)],
    }


async def erase_credentials(db: Db, user_id: UserId) -> None:
    await store.delete_links(db, user_id)
    await store.delete_addresses(db, user_id)
