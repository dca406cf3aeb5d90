"""A request repeated with the same `Idempotency-Key` has one effect and gets the first answer again."""

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from catraca.platform.database import Db, Lock
from catraca.platform.errors import IdempotencyKeyInUse, IdempotencyKeyInvalid, IdempotencyKeyReused

KEY_SHAPE: Final = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """One principal's use of one key on one route: what is claimed, and for which request."""

    scope: bytes
    fingerprint: bytes

    @classmethod
    def of(cls, *, principal_id: UUID, method: str, route: str, key: str, request: bytes) -> "Claim":
        if not KEY_SHAPE.fullmatch(key):
            raise IdempotencyKeyInvalid
        scope = hashlib.sha256(f"{principal_id}\n{method}\n{route}\n{key}".encode()).digest()
        return cls(scope, hashlib.sha256(request).digest())

    @property
    def lock(self) -> Lock:
        """Repeats queue here, so that the effect is not even tried while the first is under way."""
        return Lock(int.from_bytes(self.scope[:8], signed=True), taken=IdempotencyKeyInUse)


async def stored_response(db: Db, claim: Claim) -> StoredResponse | None:
    """The first request's answer, if there was one. Ask while holding `claim.lock`."""
    row = await db.fetchrow(
        "SELECT fingerprint, status, headers, body FROM idempotency_keys WHERE scope = $1", claim.scope
    )
    if row is None:
        return None
    if row["fingerprint"] != claim.fingerprint:
        raise IdempotencyKeyReused
    return StoredResponse(
        row["status"], msgspec.json.decode(row["headers"], type=dict[str, str]), row["body"]
    )


async def store_response(db: Db, claim: Claim, response: StoredResponse) -> None:
    """Keep the answer beside the effect it tells of, in the effect's own transaction.

    The primary key decides: were the lock ever lost, the second effect would fail here and be undone.
    """
    await db.execute(
        "INSERT INTO idempotency_keys (scope, fingerprint, status, headers, body)"
        " VALUES ($1, $2, $3, $4, $5)",
        claim.scope,
        claim.fingerprint,
        response.status,
        msgspec.json.encode(response.headers).decode(),
        response.body,
    )


async def prune_idempotency_keys(db: Db, *, older_than: timedelta, limit: int = 10_000) -> int:
    """Forget keys past their retention, a bounded number at a time; returns how many."""
    return await db.fetchval(
        "WITH old AS (SELECT scope FROM idempotency_keys WHERE created_at < clock_timestamp() - $1::interval"
        "             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED),"
        " gone AS (DELETE FROM idempotency_keys k USING old WHERE k.scope = old.scope RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        limit,
    )
