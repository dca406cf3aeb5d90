"""Authentication by bearer tokens. A person is inserted at first use; revoked tokens are refused.

Three clocks are compared here. A token's end is checked against this machine's clock, its beginning (`iat`,
`nbf`) with `CLOCK_LEEWAY`, since the signer's clock may be ahead. A revocation is a time of the database's
clock. Tokens of our own login have their `iat` from that clock (see `sign_token`), so the comparison is
exact. A provider's `iat` is from the provider's clock, often in whole seconds: there a revocation also covers
tokens signed up to `clock_margin` after it. This is the safe side: no token signed before the revocation
stays valid, and a token signed in the first seconds after it is refused, so the client asks for another.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, cast
from uuid import UUID

import jwt
from jwt.types import Options

from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.errors import (
    Forbidden,
    FreshSignInRequired,
    SecondFactorRequired,
    TokenExpired,
    TokenInvalid,
    TokenRevoked,
)
from catraca.platform.ids import token_digest

ROLES = frozenset({"passenger", "driver", "worker", "operator", "service"})
TOKEN_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt"})
MAX_TOKEN_CHARACTERS = 8192
TOKENS_REMEMBERED = 10_000
# A withdrawn key must stop working, so even verified tokens are verified again after this time.
REMEMBERED_SECONDS = 60.0
CLOCK_LEEWAY = timedelta(seconds=5)
VERIFIED: Options = {"require": ["sub", "iat", "exp", "aud", "iss"]}
# Values of the claim `amr` (RFC 8176) that mean more than a password: a code, several factors, or a key.
STRONG_METHODS = frozenset({"otp", "mfa", "hwk", "swk"})
# A token that is signed without a sign-in: its maker has the secret.
SIGNED_WITH_THE_SECRET = ("swk",)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, from the claims of the token."""

    id: UUID
    roles: frozenset[str]
    # Less the margin of the signer's clock: what a revocation is compared with.
    issued_at: datetime
    expires_at: datetime
    # When the person has signed in; None where it does not matter, as on sockets.
    authenticated_at: datetime | None = None
    # Roles of the token that are not granted, because its sign-in had no second factor.
    withheld: frozenset[str] = frozenset()

    def has(self, *roles: str) -> bool:
        return not self.roles.isdisjoint(roles)

    def require(self, *roles: str) -> None:
        if not self.has(*roles):
            raise Forbidden if self.withheld.isdisjoint(roles) else SecondFactorRequired

    def require_fresh(self, max_age: timedelta) -> None:
        """Refuse a token whose sign-in is longer ago than `max_age`."""
        if self.authenticated_at is None or self.authenticated_at + max_age <= now():
            raise FreshSignInRequired(max_age_seconds=int(max_age.total_seconds()))

    @property
    def acts_for_others(self) -> bool:
        """True for operators and services, who may act for another person's id."""
        return self.has("operator", "service")


class KeySource(Protocol):
    """Provides the keys that sign tokens, and their allowed algorithms."""

    algorithms: list[str]
    clock_margin: timedelta

    async def key_for(self, token: str) -> Any: ...


class SharedSecret:
    """HS256 with our own secret: the default."""

    algorithms = ["HS256"]  # noqa: RUF012
    clock_margin = timedelta(0)

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def key_for(self, token: str) -> str:
        return self._secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    issuer: str = "catraca"
    audience: str = "catraca"
    roles_claim: str = "roles"
    # Granted only to tokens of a sign-in with a second factor.
    strong_roles: frozenset[str] = frozenset()


class TokenVerifier:
    """Verifies signature, algorithm, type, issuer, audience and times. Caches digests of valid tokens."""

    def __init__(self, keys: KeySource, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._good: dict[bytes, tuple[float, Principal]] = {}

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
            decoded: dict[str, Any] = jwt.decode_complete(
                token,
                await self._keys.key_for(token),
                algorithms=self._keys.algorithms,
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=CLOCK_LEEWAY,
                options=VERIFIED,
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired from error
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenInvalid from error
        header: dict[str, Any] = decoded["header"]
        # Extensions marked critical must be understood; we support none.
        if str(header.get("typ", "")).lower() not in TOKEN_TYPES or "crit" in header:
            raise TokenInvalid
        return self._principal(decoded["payload"])

    def _principal(self, claims: dict[str, Any]) -> Principal:
        try:
            roles = _roles(claims, self._rules.roles_claim)
            withheld = frozenset[str]() if _is_strong(claims) else roles & self._rules.strong_roles
            issued_at = _moment(claims["iat"])
            return Principal(
                id=UUID(claims["sub"]),
                roles=roles - withheld,
                issued_at=issued_at - self._keys.clock_margin,
                expires_at=_moment(claims["exp"]),
                authenticated_at=_authenticated_at(claims, issued_at),
                withheld=withheld,
            )
        except (ValueError, TypeError, OverflowError, OSError) as error:
            raise TokenInvalid from error


def _roles(claims: Any, path: str) -> frozenset[str]:
    # Some providers name claims by URLs, whose dots do not mean nesting.
    for step in [path] if path in claims else path.split("."):
        claims = cast(dict[str, Any], claims).get(step) if isinstance(claims, dict) else None
    if not isinstance(claims, list):
        raise TypeError("roles are a list")
    return ROLES.intersection(role for role in cast(list[Any], claims) if isinstance(role, str))


def _is_strong(claims: dict[str, Any]) -> bool:
    methods = claims.get("amr")
    return isinstance(methods, list) and not STRONG_METHODS.isdisjoint(
        method for method in cast(list[Any], methods) if isinstance(method, str)
    )


def _authenticated_at(claims: dict[str, Any], issued_at: datetime) -> datetime | None:
    """The time of the sign-in; the token's own time if the signer does not give it."""
    if "auth_time" not in claims:
        return issued_at
    try:
        return min(_moment(claims["auth_time"]), issued_at)
    except (ValueError, OverflowError, OSError):
        return None  # unreadable: the token stays valid, but is never fresh


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
    methods: Iterable[str] = SIGNED_WITH_THE_SECRET,
    rules: TokenRules | None = None,
) -> str:
    """A token for `subject`. A login passes the database's time as `issued_at`: it also dates revocations."""
    rules = rules or TokenRules()
    issued_at = issued_at or now()
    claims = {
        "sub": str(subject),
        rules.roles_claim: sorted(roles),
        "iss": rules.issuer,
        "aud": rules.audience,
        # With fractions: a token signed just after a revocation must not count as signed before it.
        "iat": issued_at.timestamp(),
        "exp": int((issued_at + lifetime).timestamp()),
        "auth_time": issued_at.timestamp(),
        "amr": list(methods),
    }
    return jwt.encode(claims, secret, algorithm="HS256", headers={"typ": "at+jwt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSigner:
    """Signs our own tokens. Not used if an identity provider signs them."""

    secret: str = field(repr=False)
    lifetime: timedelta
    rules: TokenRules

    def sign(
        self, subject: UUID, *, roles: Iterable[str], issued_at: datetime, methods: Iterable[str]
    ) -> str:
        return sign_token(
            self.secret,
            subject=subject,
            roles=roles,
            lifetime=self.lifetime,
            issued_at=issued_at,
            methods=methods,
            rules=self.rules,
        )


# Provided by the roles: inserts the person at first use, and returns since when tokens are valid (None:
# always).
TokensValidAfter = Callable[[Principal], Awaitable[datetime | None]]


class Authenticator:
    """Turns a bearer token into a caller. Revocations are read again after `standing_seconds`."""

    def __init__(
        self, verifier: TokenVerifier, tokens_valid_after: TokensValidAfter, *, standing_seconds: float = 1.0
    ) -> None:
        self._verifier = verifier
        self._tokens_valid_after = tokens_valid_after
        self._standing_seconds = standing_seconds
        # Roles are part of the key: a person's first token as a driver must not use the cache.
        self._standings: dict[tuple[UUID, frozenset[str]], tuple[float, datetime | None]] = {}

    async def authenticate(self, token: str) -> Principal:
        principal = await self._verifier.verify(token)
        await self._ensure_counts(principal)
        return principal

    async def ensure_good(self, principal: Principal) -> None:
        """Refuse a caller whose token has expired or was revoked: for sockets, which outlive a request."""
        if principal.expires_at <= now():
            raise TokenExpired
        await self._ensure_counts(principal)

    def is_revoked(self, principal: Principal, valid_after: datetime | None) -> bool:
        """True if the token was issued before `valid_after`."""
        return valid_after is not None and principal.issued_at < valid_after

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
    """Insert into a cache of bounded size; the oldest entry is dropped."""
    if len(memory) >= TOKENS_REMEMBERED:
        del memory[next(iter(memory))]
    memory[key] = value
