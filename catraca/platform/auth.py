"""Who is calling: bearer tokens checked, people known or made on first use, revoked tokens refused."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import jwt

from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.errors import (
    Forbidden,
    IdentityProviderUnavailable,
    TokenExpired,
    TokenInvalid,
    TokenRevoked,
)

ROLES = frozenset({"passenger", "driver", "worker", "operator", "service"})
TOKEN_TYPES = frozenset({"at+jwt", "jwt"})
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
MAX_TOKEN_CHARACTERS = 8192
VERIFIED_TOKENS_KEPT = 10_000


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

    async def key_for(self, token: str) -> Any: ...


class SharedSecret:
    """HS256 with our own secret: the default."""

    algorithms = ["HS256"]  # noqa: RUF012

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def key_for(self, token: str) -> Any:
        return self._secret


class RemoteKeys:
    """An identity provider's published keys (JWKS). A shared-secret token is refused: no algorithm swaps."""

    algorithms = ASYMMETRIC

    def __init__(self, url: str, *, kept_seconds: int = 300) -> None:
        self._client = jwt.PyJWKClient(url, cache_keys=True, lifespan=kept_seconds, timeout=5)

    async def key_for(self, token: str) -> Any:
        try:
            return (await asyncio.to_thread(self._client.get_signing_key_from_jwt, token)).key
        except jwt.PyJWKClientConnectionError as error:
            raise IdentityProviderUnavailable from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    issuer: str = "catraca"
    audience: str = "catraca"
    roles_claim: str = "roles"


class TokenVerifier:
    """Checks signature, algorithm, type, issuer, audience and times; remembers tokens it has checked."""

    def __init__(self, keys: KeySource, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._verified: dict[str, Principal] = {}

    async def verify(self, token: str) -> Principal:
        known = self._verified.get(token)
        if known is not None:
            if known.expires_at <= now():
                del self._verified[token]
                raise TokenExpired
            return known
        principal = await self._check(token)
        if len(self._verified) >= VERIFIED_TOKENS_KEPT:
            del self._verified[next(iter(self._verified))]
        self._verified[token] = principal
        return principal

    async def _check(self, token: str) -> Principal:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise TokenInvalid
        try:
            if str(jwt.get_unverified_header(token).get("typ", "")).lower() not in TOKEN_TYPES:
                raise TokenInvalid
            claims: dict[str, Any] = jwt.decode(
                token,
                await self._keys.key_for(token),
                algorithms=self._keys.algorithms,
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                options={"require": ["sub", "iat", "exp", "aud", "iss"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired from error
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenInvalid from error
        return self._principal(claims)

    def _principal(self, claims: dict[str, Any]) -> Principal:
        roles: Any = claims
        for step in self._rules.roles_claim.split("."):
            roles = roles.get(step) if isinstance(roles, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if not isinstance(roles, list):
            raise TokenInvalid
        try:
            return Principal(
                id=UUID(claims["sub"]),
                roles=ROLES.intersection(r for r in roles if isinstance(r, str)),  # pyright: ignore[reportUnknownVariableType]
                issued_at=datetime.fromtimestamp(claims["iat"], UTC),
                expires_at=datetime.fromtimestamp(claims["exp"], UTC),
            )
        except (ValueError, TypeError, OverflowError, OSError) as error:
            raise TokenInvalid from error


def sign_token(
    secret: str, *, subject: UUID, roles: Iterable[str], lifetime: timedelta, rules: TokenRules | None = None
) -> str:
    """A token of our own for `subject`, as the command line and the password login hand out."""
    rules = rules or TokenRules()
    issued_at = now()
    claims = {
        "sub": str(subject),
        "roles": sorted(roles),
        "iss": rules.issuer,
        "aud": rules.audience,
        # Fractions matter: a token made right after a revocation must not count as made before it.
        "iat": issued_at.timestamp(),
        "exp": int((issued_at + lifetime).timestamp()),
    }
    return jwt.encode(claims, secret, algorithm="HS256", headers={"typ": "at+jwt"})


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
        self._standings: dict[UUID, tuple[float, datetime | None]] = {}

    async def authenticate(self, token: str) -> Principal:
        principal = await self._verifier.verify(token)
        valid_after = await self._standing(principal)
        if valid_after is not None and principal.issued_at < valid_after:
            raise TokenRevoked
        return principal

    async def _standing(self, principal: Principal) -> datetime | None:
        known = self._standings.get(principal.id)
        if known is not None and monotonic_seconds() - known[0] < self._standing_seconds:
            return known[1]
        asked_at = monotonic_seconds()
        valid_after = await self._tokens_valid_after(principal)
        if len(self._standings) >= VERIFIED_TOKENS_KEPT:
            del self._standings[next(iter(self._standings))]
        self._standings[principal.id] = (asked_at, valid_after)
        return valid_after
