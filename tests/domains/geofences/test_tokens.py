"""Tokens: kept nowhere, of use to nobody else, and not to be guessed."""

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
# So much of a token is as good as all of it.
PART = 16
# What varies from answer to answer, whatever is asked.
OWN = ("x-request-id", "date")


async def all_columns(village: Village) -> Sequence[Any]:
    return await village.sql(
        "SELECT c.table_name, c.column_name FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
    )


async def where_kept(village: Village, secret: str) -> list[str]:
    """In which columns of the whole database it begins, as text or as bytes."""
    spellings = [secret[:PART], secret[:PART].encode().hex()]
    found: list[str] = []
    for table, column in await all_columns(village):
        kept = f'"{column}"::text'
        rows = await village.sql(
            f'SELECT FROM "{table}" WHERE strpos({kept}, $1) > 0 OR strpos({kept}, $2) > 0', *spellings
        )
        found += [f"{table}.{column}"] * bool(rows)
    return found


async def test_a_token_is_kept_nowhere(village: Village) -> None:
    passenger_id, key = uuid4(), {"idempotency-key": "first"}
    with capture_logs() as log:
        asked = await village.post(passenger_id, key, **village.asked())
        token = asked.json()["confirmationToken"]
        await village.ask(passenger_id)
        await village.confirm(uuid4(), token)
        await village.confirm(passenger_id, token, price=1)
        confirmed = await village.post(passenger_id, key, confirmationToken=token)
        assert confirmed.status_code == 201, confirmed.text
        await village.confirm(passenger_id, token)
        expired_for = uuid4()
        expired = await village.token(expired_for)
        await village.let_lapse(expired)
        await village.confirm(expired_for, expired)
        await village.close(expired)
        exported = await village.town.api.get("/v1/me/export", headers=village.headers(passenger_id))
        assert exported.status_code == 200
    figures = await village.town.api.get("/metrics")
    said = [render(None, "", dict(line)).decode() for line in log] + [figures.text, exported.text]
    for secret in (token, expired):
        assert await where_kept(village, secret) == []
        assert not [text for text in said if secret in text]
    digest = (await village.question(token))["token_hash"].hex()
    assert await where_kept(village, digest) == ["ride_confirmations.token_hash"], "else nobody looked"
    assert await where_kept(village, "Origem"), "also among the answers that were kept"


def test_a_token_is_made_of_the_questions_id_and_the_secret() -> None:
    maker, question_id = ConfirmationTokens(SECRET), uuid4()
    token = maker.token_of(question_id)
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    assert token == ConfirmationTokens(SECRET).token_of(question_id)
    others = [maker.token_of(uuid4()), ConfirmationTokens(f"{SECRET}.").token_of(question_id)]
    assert token not in others


def without_own(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    headers = {name: value for name, value in answer.headers.items() if name not in OWN}
    return answer.status_code, headers, answer.text.replace(answer.json()["request_id"], "")


async def wrong_tokens(village: Village) -> dict[str, str]:
    theirs, used_by_them, expired = uuid4(), uuid4(), uuid4()
    tokens = {
        "unknown": NO_SUCH,
        "another's": await village.token(theirs),
        "another's, used": await village.token(used_by_them),
        "another's, expired": await village.token(expired),
        "too short": "abc123",
        "too long": NO_SUCH + "0",
        "no digits": "ção" * 20,
        "an injection": "' OR true --",
    }
    await village.confirmed(used_by_them, tokens["another's, used"])
    await village.let_lapse(tokens["another's, expired"])
    tokens["another's, in capitals"] = tokens["another's"].upper()
    return tokens


async def test_unknown_and_anothers_are_told_alike(village: Village) -> None:
    passenger_id = uuid4()
    answers = {
        name: without_own(await village.confirm(passenger_id, token))
        for name, token in (await wrong_tokens(village)).items()
    }
    status, _, body = answers["unknown"]
    assert status == 404
    assert '"code":"confirmation_token_invalid","detail":"Token de confirmação inválido."' in body
    for name, answer in answers.items():
        assert answer == answers["unknown"], name


@dataclass
class Watched:
    """A connection that writes down what is asked of it."""

    db: Db
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    async def fetch(self, query: str, *args: object) -> Sequence[Row]:
        return await self._note(self.db.fetch, query, args)

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        return await self._note(self.db.fetchrow, query, args)

    async def fetchval(self, query: str, *args: object) -> Any:
        return await self._note(self.db.fetchval, query, args)

    async def execute(self, query: str, *args: object) -> str:
        return await self._note(self.db.execute, query, args)

    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None:
        raise NotImplementedError

    def after_commit(self, act: Callable[[], object]) -> None:
        self.db.after_commit(act)

    async def _note(self, do: Callable[..., Awaitable[Any]], query: str, args: tuple[object, ...]) -> Any:
        shapes = [f"{type(one).__name__} {len(one) if isinstance(one, bytes) else ''}" for one in args]
        self.asked.append((query, shapes))
        return await do(query, *args)


async def test_unknown_and_anothers_cost_the_same(village: Village) -> None:
    """The same statements with arguments of the same size: nothing is left by which to tell them apart."""
    gate = community_rides(village)
    passenger_id = UserId(uuid4())
    await village.ask(passenger_id)
    costs: dict[str, list[tuple[str, list[str]]]] = {}
    for name, token in (await wrong_tokens(village)).items():
        async with village.town.parts.database.transaction() as db:
            watched = Watched(db)
            await gate.confirm_ride(watched, token, {}, passenger_id=passenger_id, by=passenger_id)
        costs[name] = watched.asked
    assert len(costs["unknown"]) == 2, "one look, and one line in the audit log"
    assert all("token_hash = $2" in asked[0][0] for asked in costs.values())
    for name, asked in costs.items():
        assert asked == costs["unknown"], name


@pytest.mark.parametrize("token", ["", "0" * 201, 7, ["0" * 64]])
async def test_what_can_be_no_token_is_said_to_be_none(village: Village, token: Any) -> None:
    answer = await village.confirm(uuid4(), token)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert answer.json()["errors"][0]["where"] == "body.confirmationToken"


async def guess(village: Village, passenger_id: UUID) -> httpx.Response:
    return await village.confirm(passenger_id, uuid4().hex * 2)


async def test_after_so_many_wrong_tokens_none_is_looked_at(village: Village) -> None:
    async with village.under(rate_limit_confirmation="3/hour") as guarded:
        guesser, other = uuid4(), uuid4()
        right, others = await guarded.token(guesser), await guarded.token(other)
        assert [(await guess(guarded, guesser)).status_code for _ in range(5)] == [404, 404, 404, 429, 429]
        refused = await guarded.confirm(guesser, right)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        assert (await village.question(right))["used_at"] is None
        assert (await guarded.confirm(other, others)).status_code == 201, "it is that passenger's limit"
        assert (await guarded.ask(guesser)).status_code == 202, "asking is no guess"


async def test_right_tokens_are_no_guesses(village: Village) -> None:
    async with village.under(rate_limit_confirmation="2/hour") as guarded:
        passenger_id = uuid4()
        token = await guarded.token(passenger_id)
        contradicted = [await guarded.confirm(passenger_id, token, price=1) for _ in range(3)]
        assert {answer.status_code for answer in contradicted} == {422}
        answers = [await guarded.confirm(passenger_id, token) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
        expired_for = uuid4()
        expired = await guarded.token(expired_for)
        await guarded.let_lapse(expired)
        late = [await guarded.confirm(expired_for, expired) for _ in range(3)]
        assert {answer.status_code for answer in late} == {410}
        assert [(await guess(guarded, passenger_id)).status_code for _ in range(3)] == [404, 404, 429]
