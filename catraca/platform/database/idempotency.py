"""A request repeated with the same `Idempotency-Key` has one effect and gets the first response again."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from catraca.platform.database import Db
from catraca.platform.database.retention import prune_rows
from catraca.platform.erasure import erased_document
from catraca.platform.errors import (
    Forbidden,
    IdempotencyKeyInUse,
    IdempotencyKeyInvalid,
    IdempotencyKeyReused,
)

REPLAYED: Final = {"idempotency-replayed": "true"}
KEY_SHAPE: Final = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    status: int
    headers: dict[str, str]
    body: bytes


class Claim:
    """A principal's use of a key on a route, as hooks of the transaction of its effect.

    Repeats wait for an advisory lock, so they do not start while the first request runs. The primary key
    decides: without the lock, a second effect would fail to insert its row and be rolled back.

    A response is stored with the roles of the token that got it, and returned only to a token with all of
    them: a person's lesser token must not read what it could not get itself.
    """

    locked_out = IdempotencyKeyInUse

    def __init__(
        self,
        *,
        principal_id: UUID,
        roles: Collection[str],
        method: str,
        route: str,
        key: str,
        request: bytes,
    ) -> None:
        if not KEY_SHAPE.fullmatch(key):
            raise IdempotencyKeyInvalid
        self._roles = frozenset(roles)
        digest = hashlib.sha256(f"{principal_id} {method} {route} {key}".encode()).digest()
        # The principal first: one range of the primary key then holds all rows of a person.
        self.scope = principal_id.bytes + digest[:16]
        self.lock = int.from_bytes(digest[:8], signed=True)
        self.fingerprint = hashlib.sha256(request).digest()
        self._response: StoredResponse | None = None
        self.repeated = False

    @property
    def stored_roles(self) -> str:
        return " ".join(sorted(self._roles))

    def begin_sql(self) -> str:
        self._response = None  # from a first attempt, if the transaction is retried
        # Two statements: the second must see what the last holder of the lock committed.
        return (
            f"SELECT pg_advisory_xact_lock({self.lock:d});"  # noqa: S608
            f" SELECT FROM idempotency_keys WHERE scope = '\\x{self.scope.hex()}'"
        )

    def begun(self, tag: str) -> None:
        self.repeated = tag != "SELECT 0"

    def keep(self, response: StoredResponse) -> None:
        """Store this response in the transaction of its effect."""
        self._response = response

    def commit_sql(self) -> str:
        if self._response is None:
            return ""
        values = (
            self.stored_roles.encode(),
            self.scope,
            self.fingerprint,
            msgspec.json.encode(self._response.headers),
            self._response.body,
        )
        roles, *hexed = (f"'\\x{value.hex()}'" for value in values)
        return (
            "INSERT INTO idempotency_keys (status, roles, scope, fingerprint, headers, body)"  # noqa: S608
            f" VALUES ({self._response.status:d}, string_to_array(convert_from({roles}, 'UTF8'), ' '),"
            f" {', '.join(hexed)})"
        )

    async def stored_response(self, db: Db) -> StoredResponse:
        """The response to the first request. Refuses another request, and a token with fewer roles."""
        row = await db.fetchrow(
            "SELECT roles, fingerprint, status, headers, body FROM idempotency_keys WHERE scope = $1",
            self.scope,
        )
        if row is None:  # pruned after the check
            raise IdempotencyKeyInUse
        if row["roles"] is None or not self._roles.issuperset(row["roles"]):
            raise Forbidden
        if row["fingerprint"] != self.fingerprint:
            raise IdempotencyKeyReused
        headers = msgspec.json.decode(row["headers"], type=dict[str, str])
        return StoredResponse(row["status"], headers, row["body"])


async def respond_once(
    db: Db, claim: Claim | None, work: Callable[[], Awaitable[StoredResponse]]
) -> StoredResponse:
    """The stored response if the key was used before; else run `work` and store its response."""
    if claim is None:
        return await work()
    if claim.repeated:
        stored = await claim.stored_response(db)
        return replace(stored, headers=stored.headers | REPLAYED)
    response = await work()
    claim.keep(response)
    return response


async def lock_unused_keys(db: Db, claims: Collection[Claim]) -> set[Claim]:
    """Lock the keys of several requests without waiting; returns those that are locked and were not used."""
    if not claims:
        return set()
    by_scope = {claim.scope: claim for claim in claims}
    rows = await db.fetch(
        "SELECT scope FROM unnest($1::bytea[], $2::bigint[]) AS c (scope, lock)"
        " WHERE pg_try_advisory_xact_lock(lock)"
        "   AND NOT EXISTS (SELECT FROM idempotency_keys k WHERE k.scope = c.scope)",
        list(by_scope),
        [claim.lock for claim in by_scope.values()],
    )
    return {by_scope[row["scope"]] for row in rows}


async def store_responses(db: Db, responses: Sequence[tuple[Claim, StoredResponse]]) -> None:
    """Store the responses to several requests in the transaction of their effects."""
    if not responses:
        return
    await db.execute(
        "INSERT INTO idempotency_keys (status, roles, scope, fingerprint, headers, body)"
        " SELECT status, string_to_array(roles, ' '), scope, fingerprint, headers, body"
        " FROM unnest($1::int[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])"
        "   AS r (status, roles, scope, fingerprint, headers, body)",
        [response.status for _, response in responses],
        [claim.stored_roles for claim, _ in responses],
        [claim.scope for claim, _ in responses],
        [claim.fingerprint for claim, _ in responses],
        [msgspec.json.encode(response.headers) for _, response in responses],
        [response.body for _, response in responses],
    )


async def forget_responses(db: Db, principal_id: UUID) -> None:
    """Delete the stored responses of a person: they hold personal data."""
    await db.execute(
        "DELETE FROM idempotency_keys WHERE scope BETWEEN $1 AND $2",
        principal_id.bytes + bytes(16),
        principal_id.bytes + b"\xff" * 16,
    )


async def erase_in_responses(db: Db, *about_ids: UUID) -> None:
    """Remove texts and exact places from stored responses of all principals that have one of these ids.

    The keys stay: a repeated request still has one effect. All responses are read: any principal may have
    got one, and an erasure is rare.
    """
    rows = await db.fetch(
        "SELECT scope, body FROM idempotency_keys"
        " WHERE EXISTS (SELECT FROM unnest($1::bytea[]) AS about WHERE position(about IN body) > 0)",
        [str(about_id).encode() for about_id in about_ids],
    )
    await db.execute(
        "UPDATE idempotency_keys k SET body = erased.body"
        " FROM unnest($1::bytea[], $2::bytea[]) AS erased (scope, body) WHERE k.scope = erased.scope",
        [row["scope"] for row in rows],
        [erased_document(row["body"]) for row in rows],
    )


async def prune_idempotency_keys(db: Db, *, older_than: timedelta) -> int:
    """Delete keys older than their retention, a bounded number at a time; returns the number."""
    return await prune_rows(db, "idempotency_keys", aged_by="created_at", older_than=older_than)
