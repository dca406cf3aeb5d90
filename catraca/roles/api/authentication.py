"""Callers: verification of their tokens, revocation, and accounts on first use."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from catraca.domains import people
from catraca.domains.people.accounts.model import Standing
from catraca.platform.auth import Authenticator, KeySource, Principal, SharedSecret, TokenVerifier
from catraca.platform.gather import Gather
from catraca.platform.jwks import ProviderKeys
from catraca.roles.parts import Parts
from catraca.settings import Settings


class Authentication:
    def __init__(self, parts: Parts) -> None:
        self._database = parts.database.reserve
        # One at a time: new accounts must not take every reserved connection.
        self._new_account = asyncio.Lock()
        self._driver_approval: Final = parts.settings.people.driver_approval
        # Lookups that arrive while another one runs share the next query.
        self._standings = Gather(self._look_up)
        verifier = TokenVerifier(_keys(parts.settings), parts.settings.token_rules())
        self.authenticator = Authenticator(verifier, self._tokens_valid_after)

    async def revoked(self, principals: Sequence[Principal]) -> list[bool]:
        """For each principal: True if its token was revoked."""
        known = await self._look_up([(principal.id, principal.roles) for principal in principals])
        return [
            self.authenticator.is_revoked(principal, standing and standing.tokens_valid_after)
            for principal, standing in zip(principals, known, strict=True)
        ]

    async def _tokens_valid_after(self, principal: Principal) -> datetime | None:
        """The account's moment of revocation; an unknown account is created."""
        known = await self._standings.ask((principal.id, principal.roles))
        if known is not None:
            return known.tokens_valid_after
        async with self._new_account:
            return await self._database.run(
                lambda db: people.ensure_user(
                    db,
                    principal.id,
                    roles=principal.roles | principal.withheld,
                    driver_approval=self._driver_approval,
                )
            )

    async def _look_up(self, accounts: Sequence[tuple[UUID, frozenset[str]]]) -> Sequence[Standing | None]:
        async with self._database.connection() as db:
            return await people.standings_of(db, accounts)


def _keys(settings: Settings) -> KeySource:
    if settings.access.jwks_url:
        return ProviderKeys(settings.access.jwks_url)
    return SharedSecret(settings.signing_secret())
