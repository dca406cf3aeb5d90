"""Who is calling: bearer tokens checked, people known or made on first use, revoked tokens refused.

Three clocks meet here. A token's end is judged by this machine's clock, its beginning (`iat`, `nbf`) with
`CLOCK_LEEWAY`, for whoever signed it may be a little ahead. A revocation is a moment of the database's clock:
the tokens of our own login carry that clock's `iat` (see `sign_token`), so before and after are exact. A
provider's `iat` is the provider's clock, often in whole seconds; there a revocation also covers what was
signed up to `clock_margin` after it. That errs on the safe side: no token from before outlives the
revocation, and one from the first seconds after it is refused and asked for again.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, cast
from uuid import UUID

import jwt
from jwt.utils import base64url_decode

from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.errors import Forbidden, TokenExpired, TokenInvalid, TokenRevoked
from catraca.platform.ids import token_digest

ROLES = frozenset({"passenger", "driver", "worker", "operator", "service"})
TOKEN_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt"})
MAX_TOKEN_CHARACTERS = 8192
TOKENS_REMEMBERED = 10_000
# A key that was withdrawn must stop working, so even a token that was good is checked again now and then.
REMEMBERED_SECONDS = 60.0
CLOCK_LEEWAY = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as the token names it."""

    id: UUID
    roles: frozenset[str]
    issued_at: datetime
    expires_at: datetime

    def has(self, *roles: str) -> bool:
        return not self.roles.isdisjoint(roles)

    def require(self, *roles: str) -> None:
        if not self.has(*roles):
            raise Forbidden

    @property
    def acts_for_others(self) -> bool:
        """Operators and services may name another person's id."""
        return self.has("operator", "service")


class KeySource(Protocol):
    """Where the key that must have signed a token comes from, and which algorithms it may be used with."""

    algorithms: list[str]
    clock_margin: timedelta

    async def key_for(self, header: Mapping[str, Any]) -> Any: ...


class SharedSecret:
    """HS256 with our own secret: the default."""

    algorithms = ["HS256"]  # noqa: RUF012
    clock_margin = timedelta(0)

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def key_for(self, header: Mapping[str, Any]) -> str:
        return self._secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    issuer: str = "catraca"
    audience: str = "catraca"
    roles_claim: str = "roles"


class TokenVerifier:
    """Checks signature, algorithm, type, issuer, audience and times; remembers the digests of good ones."""

    def __init__(self, keys: KeySource, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._good: dict[bytes, tuple[float, Principal]] = {}

    @property
    def clock_margin(self) -> timedelta:
        return self._keys.clock_margin

    async def verify(self, token: str) -> Principal:
        if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
            raise TokenInvalid
        digest = token_digest(token)
        known = self._good.get(digest)
        if known is not None and monotonic_seconds() - known[0] < REMEMBERED_SECONDS:
            principal = known[1]
        else:
            self._good.pop(digest, None)
            principal = await self._check(token)
            _remember(self._good, digest, (monotonic_seconds(), principal))
        if principal.expires_at <= now():
            raise TokenExpired
        return principal

    async def _check(self, token: str) -> Principal:
        try:
            header = _header_of(token)
            # An extension marked critical must be understood, and we know none.
            if str(header.get("typ", "")).lower() not in TOKEN_TYPES or "crit" in header:
                raise TokenInvalid
            claims: dict[str, Any] = jwt.decode(
                token,
                await self._keys.key_for(header),
                algorithms=self._keys.algorithms,
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=CLOCK_LEEWAY,
                options={"require": ["sub", "iat", "exp", "aud", "iss"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired from error
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenInvalid from error
        return self._principal(claims)

    def _principal(self, claims: dict[str, Any]) -> Principal:
        try:
            return Principal(
                id=UUID(claims["sub"]),
                roles=_roles(claims, self._rules.roles_claim),
                issued_at=_moment(claims["iat"]),
                expires_at=_moment(claims["exp"]),
            )
        except (ValueError, TypeError, OverflowError, OSError) as error:
            raise TokenInvalid from error


def _header_of(token: str) -> dict[str, Any]:
    """Only the first part: all of them are taken apart, and checked, once the key is known."""
    header = json.loads(base64url_decode(token.partition(".")[0]))
    if not isinstance(header, dict):
        raise TokenInvalid
    return cast(dict[str, Any], header)


def _roles(claims: Any, path: str) -> frozenset[str]:
    # Providers also name claims by addresses, whose dots do not mean depth.
    for step in [path] if path in claims else path.split("."):
        claims = cast(dict[str, Any], claims).get(step) if isinstance(claims, dict) else None
    if not isinstance(claims, list):
        raise TypeError("roles are a list")
    return ROLES.intersection(role for role in cast(list[Any], claims) if isinstance(role, str))


def _moment(value: Any) -> datetime:
    if type(value) not in (int, float) or value < 0:
        raise ValueError("a time is seconds since 1970")
    return datetime.fromtimestamp(value, UTC)


def sign_token(
    secret: str,
    *,
    subject: UUID,
    roles: Iterable[str],
    lifetime: timedelta,
    issued_at: datetime | None = None,
    rules: TokenRules | None = None,
) -> str:
    """A token of our own for `subject`. A login gives the database's `issued_at`: that clock also revokes."""
    rules = rules or TokenRules()
    issued_at = issued_at or now()
    claims = {
        "sub": str(subject),
        rules.roles_claim: sorted(roles),
        "iss": rules.issuer,
        "aud": rules.audience,
        # Fractions matter: a token made right after a revocation must not count as made before it.
        "iat": issued_at.timestamp(),
        "exp": int((issued_at + lifetime).timestamp()),
    }
    return jwt.encode(claims, secret, algorithm="HS256", headers={"typ": "at+jwt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSigner:
    """Signs tokens of our own; a role makes one unless an identity provider does the signing."""

    secret: str = field(repr=False)
    lifetime: timedelta
    rules: TokenRules

    def sign(self, subject: UUID, *, roles: Iterable[str], issued_at: datetime) -> str:
        return sign_token(
            self.secret,
            subject=subject,
            roles=roles,
            lifetime=self.lifetime,
            issued_at=issued_at,
            rules=self.rules,
        )


# Given by the roles: makes the person on first use and answers since when tokens count (None: all do).
TokensValidAfter = Callable[[Principal], Awaitable[datetime | None]]


class Authenticator:
    """From bearer token to caller. A person's standing is looked up again after `standing_seconds`."""

    def __init__(
        self, verifier: TokenVerifier, tokens_valid_after: TokensValidAfter, *, standing_seconds: float = 1.0
    ) -> None:
        self._verifier = verifier
        self._tokens_valid_after = tokens_valid_after
        self._standing_seconds = standing_seconds
        # By roles too: the first token that makes a known person a driver must not be answered from memory.
        self._standings: dict[tuple[UUID, frozenset[str]], tuple[float, datetime | None]] = {}

    async def authenticate(self, token: str) -> Principal:
        principal = await self._verifier.verify(token)
        await self._ensure_counts(principal)
        return principal

    async def ensure_good(self, principal: Principal) -> None:
        """For whoever keeps a caller longer than a request: refuse one whose token is over or revoked."""
        if principal.expires_at <= now():
            raise TokenExpired
        await self._ensure_counts(principal)

    def is_revoked(self, principal: Principal, valid_after: datetime | None) -> bool:
        """Whether the token is from before the moment since which this person's tokens count."""
        return valid_after is not None and principal.issued_at - self._verifier.clock_margin < valid_after

    async def _ensure_counts(self, principal: Principal) -> None:
        if self.is_revoked(principal, await self._standing(principal)):
            raise TokenRevoked

    async def _standing(self, principal: Principal) -> datetime | None:
        who = (principal.id, principal.roles)
        known = self._standings.get(who)
        if known is not None and monotonic_seconds() - known[0] < self._standing_seconds:
            return known[1]
        asked_at = monotonic_seconds()
        valid_after = await self._tokens_valid_after(principal)
        self._standings.pop(who, None)
        _remember(self._standings, who, (asked_at, valid_after))
        return valid_after


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    """Add to a memory of bounded size; the oldest goes."""
    if len(memory) >= TOKENS_REMEMBERED:
        del memory[next(iter(memory))]
    memory[key] = value
