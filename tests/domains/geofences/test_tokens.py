"""Tokens: not stored, valid for their passenger only, and limited guesses."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from catraca.domains.geofences import ConfirmationTokens
from catraca.domains.people import UserId
from catraca.platform.database import Db, Row
from catraca.platform.telemetry import render
from tests.conftest import SECRET
from tests.domains.geofences.village import Village, community_rides

NO_SUCH = "0123456789abcdef" * 4
# A part of a token that identifies it.
PART = 16
# Headers that differ in every answer.
VARYING = ("x-request-id", "date")


async def all_columns(village: Village) -> Sequence[Any]:
    return await village.sql(
        "SELECT c.table_name, c.column_name FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
    )


async def columns_with(village: Village, secret: str) -> list[str]:
    """The columns of the whole database that contain the secret, as text or as bytes."""
    spellings = [secret[:PART], secret[:PART].encode().hex()]
    found: list[str] = []
    for table, column in await all_columns(village):
        kept = f'"{column}"::text'
        rows = await village.sql(
            f'SELECT FROM "{table}" WHERE strpos({kept}, $1) > 0 OR strpos({kept}, $2) > 0', *spellings
        )
        found += [f"{table}.{column}"] * bool(rows)
    return found


async def test_token_is_not_stored(village: Village) -> None:
    passenger_id, key = uuid4(), {"idempotency-key": "first"}
    with capture_logs() as log:
        requested = await village.post(passenger_id, key, **village.body())
        token = requested.json()["confirmationToken"]
        await village.request(passenger_id)
        await village.confirm(uuid4(), token)
        await village.confirm(passenger_id, token, price=1)
        confirmed = await village.post(passenger_id, key, confirmationToken=token)
        assert confirmed.status_code == 201, confirmed.text
        await village.confirm(passenger_id, token)
        expired_for = uuid4()
        expired = await village.request_token(expired_for)
        await village.age(expired)
        await village.confirm(expired_for, expired)
        await village.expire(expired)
        exported = await village.town.api.get("/v1/me/export", headers=village.headers(passenger_id))
        assert exported.status_code == 200
    figures = await village.town.api.get("/metrics")
    texts = [render(None, "", dict(line)).decode() for line in log] + [figures.text, exported.text]
    for secret in (token, expired):
        assert await columns_with(village, secret) == []
        assert not [text for text in texts if secret in text]
    digest = (await village.confirmation(token))["token_hash"].hex()
    assert await columns_with(village, digest) == ["ride_confirmations.token_hash"], (
        "the search finds a stored digest"
    )
    assert await columns_with(village, "Origem"), "stored answers are searched too"


def test_token_is_derived_from_id_and_secret() -> None:
    tokens, confirmation_id = ConfirmationTokens(SECRET), uuid4()
    token = tokens.token_of(confirmation_id)
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    assert token == ConfirmationTokens(SECRET).token_of(confirmation_id)
    others = [tokens.token_of(uuid4()), ConfirmationTokens(f"{SECRET}.").token_of(confirmation_id)]
    assert token not in others


def comparable(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    headers = {name: value for name, value in answer.headers.items() if name not in VARYING}
    return answer.status_code, headers, answer.text.replace(answer.json()["request_id"], "")


async def wrong_tokens(village: Village) -> dict[str, str]:
    other_id, used_id, expired = uuid4(), uuid4(), uuid4()
    tokens = {
        "unknown": NO_SUCH,
        "another's": await village.request_token(other_id),
        "another's, used": await village.request_token(used_id),
        "another's, expired": await village.request_token(expired),
        "too short": "abc123",
        "too long": NO_SUCH + "0",
        "no digits": "ção" * 20,
        "an injection": "' OR true --",
    }
    await village.confirm_ride(used_id, tokens["another's, used"])
    await village.age(tokens["another's, expired"])
    tokens["another's, in capitals"] = tokens["another's"].upper()
    return tokens


async def test_unknown_and_foreign_tokens_answer_the_same(village: Village) -> None:
    passenger_id = uuid4()
    answers = {
        name: comparable(await village.confirm(passenger_id, token))
        for name, token in (await wrong_tokens(village)).items()
    }
    status, _, body = answers["unknown"]
    assert status == 404
    assert '"code":"confirmation_token_invalid","detail":"Token de confirmação inválido."' in body
    for name, answer in answers.items():
        assert answer == answers["unknown"], name


@dataclass
class RecordedDb:
    """A connection that records its queries."""

    db: Db
    queries: list[tuple[str, list[str]]] = field(default_factory=list)

    async def fetch(self, query: str, *args: object) -> Sequence[Row]:
        return await self._record(self.db.fetch, query, args)

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        return await self._record(self.db.fetchrow, query, args)

    async def fetchval(self, query: str, *args: object) -> Any:
        return await self._record(self.db.fetchval, query, args)

    async def execute(self, query: str, *args: object) -> str:
        return await self._record(self.db.execute, query, args)

    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None:
        raise NotImplementedError

    def after_commit(self, act: Callable[[], object]) -> None:
        self.db.after_commit(act)

    async def _record(self, do: Callable[..., Awaitable[Any]], query: str, args: tuple[object, ...]) -> Any:
        shapes = [f"{type(one).__name__} {len(one) if isinstance(one, bytes) else ''}" for one in args]
        self.queries.append((query, shapes))
        return await do(query, *args)


async def test_unknown_and_foreign_tokens_run_the_same_queries(village: Village) -> None:
    """The same statements with arguments of the same size: timing does not reveal the difference."""
    service = community_rides(village)
    passenger_id = UserId(uuid4())
    await village.request(passenger_id)
    costs: dict[str, list[tuple[str, list[str]]]] = {}
    for name, token in (await wrong_tokens(village)).items():
        async with village.town.parts.database.transaction() as db:
            recorded = RecordedDb(db)
            await service.confirm_ride(recorded, token, {}, passenger_id=passenger_id, by=passenger_id)
        costs[name] = recorded.queries
    assert len(costs["unknown"]) == 3, "the use, the read, and the audit entry"
    assert all("token_hash = $2" in queries[0][0] for queries in costs.values())
    for name, queries in costs.items():
        assert queries == costs["unknown"], name


@pytest.mark.parametrize("token", ["", "0" * 201, 7, ["0" * 64]])
async def test_malformed_token_is_refused(village: Village, token: Any) -> None:
    answer = await village.confirm(uuid4(), token)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert answer.json()["errors"][0]["where"] == "body.confirmationToken"


async def guess(village: Village, passenger_id: UUID) -> httpx.Response:
    return await village.confirm(passenger_id, uuid4().hex * 2)


async def test_wrong_tokens_are_limited(village: Village) -> None:
    async with village.with_settings(rate_limit_confirmation="3/hour") as guarded:
        guesser, other = uuid4(), uuid4()
        right, others = await guarded.request_token(guesser), await guarded.request_token(other)
        assert [(await guess(guarded, guesser)).status_code for _ in range(5)] == [404, 404, 404, 429, 429]
        refused = await guarded.confirm(guesser, right)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        assert (await village.confirmation(right))["used_at"] is None
        assert (await guarded.confirm(other, others)).status_code == 201, "the limit is per passenger"
        assert (await guarded.request(guesser)).status_code == 202, "a request does not count"


async def test_valid_tokens_do_not_count_for_the_limit(village: Village) -> None:
    async with village.with_settings(rate_limit_confirmation="2/hour") as guarded:
        passenger_id = uuid4()
        token = await guarded.request_token(passenger_id)
        contradicted = [await guarded.confirm(passenger_id, token, price=1) for _ in range(3)]
        assert {answer.status_code for answer in contradicted} == {422}
        answers = [await guarded.confirm(passenger_id, token) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
        expired_for = uuid4()
        expired = await guarded.request_token(expired_for)
        await guarded.age(expired)
        late = [await guarded.confirm(expired_for, expired) for _ in range(3)]
        assert {answer.status_code for answer in late} == {410}
        assert [(await guess(guarded, passenger_id)).status_code for _ in range(3)] == [404, 404, 429]
