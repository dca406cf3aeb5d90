"""Replays: to the own queue only, with the own id, at a limited rate."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from catraca.domains import dead_letters
from catraca.domains.dead_letters import Filter, ReplayTargets
from catraca.platform.bus import Headers
from catraca.platform.database import Database, outbox
from catraca.platform.database.event_invariants import EVENT_INVARIANTS
from catraca.platform.database.invariants import check_invariants
from catraca.roles.doctor.checkup import RULES
from tests.conftest import bearer
from tests.domains.dead_letters.example_letters import (
    audited,
    bury,
    execute,
    of,
    replays,
    rows,
    send_everything,
    stored,
)
from tests.domains.people.person import Person

OPERATOR = bearer("operator")


async def replay(
    api: httpx.AsyncClient, letter_id: UUID, headers: dict[str, str] = OPERATOR
) -> httpx.Response:
    return await api.post(f"/v1/dead-letters/{letter_id}/replay", headers=headers)


async def replay_all(
    api: httpx.AsyncClient, headers: dict[str, str] = OPERATOR, **body: Any
) -> dict[str, Any]:
    answer = await api.post("/v1/dead-letters/replay", headers=headers, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_replay_is_the_unchanged_message_for_its_queue_only(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    about, operator = uuid4(), Person("operator")
    body = b'{"name":   "\xc3\xa9", "n": 1.50, "s": "\\ud800\\u0000"}'
    kept = {"aggregate_id": about, "seq": 4, "round": 2, "version": 3, "trace": "a-request"}
    letter_id = await bury(database, body, retry_reason="KeyError", sent_at=7, **kept)
    answer = await replay(letters_api, letter_id, operator.headers)
    assert (answer.status_code, answer.json()["state"]) == (200, "replayed")
    assert answer.json()["decided_by"] == str(operator.id)
    (row,) = await replays(database)
    letter = await of(database, letter_id)
    message = outbox.message_of(row)
    assert (message.id, message.queue) == (letter["message_id"], "audit_log_queue")
    assert (message.exchange, message.key, message.body) == ("users.events", "user.created", body)
    assert message.headers == Headers(**kept)
    assert row["id"] != message.id
    (line,) = await audited(database)
    assert (line["actor_id"], line["action"], line["subject_id"]) == (
        operator.id,
        "dead_letter_replayed",
        str(letter_id),
    )


async def test_second_replay_waits_until_the_first_is_sent(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    letter_id = await bury(database)
    for _ in range(2):
        answers = await asyncio.gather(*(replay(letters_api, letter_id) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(await replays(database)) == 1
        await send_everything(database)
    assert len(await rows(database, "SELECT FROM outbox_sent WHERE queue IS NOT NULL")) == 2


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"NaN", b'"\x01"', b"[" * 100_000])
async def test_body_that_is_not_json_is_not_replayed(
    letters_api: httpx.AsyncClient, database: Database, body: bytes
) -> None:
    letter_id = await bury(database, body)
    answer = await replay(letters_api, letter_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "dead_letter_not_json")
    assert (await of(database, letter_id))["state"] == "waiting"
    assert await replays(database) == []


@pytest.mark.parametrize("queue", ["gone", "unknown", "dead_letter_queue"])
async def test_queues_that_take_no_replays_refuse_them(
    letters_api: httpx.AsyncClient, database: Database, queue: str
) -> None:
    answer = await replay(letters_api, await bury(database, queue=queue))
    assert (answer.status_code, answer.json()["code"]) == (409, "dead_letter_queue_gone")
    assert answer.json()["queue"] == queue
    assert await replays(database) == []


async def test_discarded_letter_can_be_replayed(letters_api: httpx.AsyncClient, database: Database) -> None:
    letter_id = await bury(database)
    await letters_api.post(f"/v1/dead-letters/{letter_id}/discard", headers=OPERATOR, json={"reason": "x"})
    assert (await replay(letters_api, letter_id)).status_code == 200
    assert len(await replays(database)) == 1
    assert (await of(database, letter_id))["decision_reason"] is None


async def test_bulk_replay_sends_the_oldest_first(letters_api: httpx.AsyncClient, database: Database) -> None:
    meant = [await bury(database, reason="x") for _ in range(5)]
    other = await bury(database, reason="y")
    bulk = await replay_all(letters_api, filter={"reason": "x"}, limit=3, dry_run=False)
    assert bulk == {"dry_run": False, "matched": 5, "replayed": 3, "refused": 0, "left": 2, "seconds": 0.04}
    assert [row["aggregate_id"] for row in await replays(database)] == meant[:3]
    bulk = await replay_all(letters_api, filter={"reason": "x"}, dry_run=False)
    assert (bulk["matched"], bulk["replayed"], bulk["left"]) == (2, 2, 0)
    states = {row["id"]: row["state"] for row in await stored(database)}
    assert states == dict.fromkeys(meant, "replayed") | {other: "waiting"}


async def test_replays_keep_the_rate_and_are_not_overdue(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    for _ in range(100):
        await bury(database)
    bulk = await replay_all(letters_api, filter={"all": True}, rate_per_second=1, dry_run=False)
    assert (bulk["replayed"], bulk["seconds"]) == (100, 99.0)
    times = [row["leased_until"] for row in await replays(database)]
    assert all(later - sooner == timedelta(seconds=1) for sooner, later in pairwise(times))
    async with database.connection() as db:
        claimed = await outbox.claim_unsent(db, lease=uuid4(), lease_seconds=60, limit=500)
        assert 1 <= len(claimed) < 100
        # Only replays that are due count as waiting.
        depth, age_seconds = await outbox.backlog(db)
        assert (depth < 100, age_seconds < 100) == (True, True)
    await execute(
        database,
        "UPDATE outbox SET created_at = created_at - interval '61 s' WHERE created_at <= clock_timestamp()",
    )
    verdicts = {one.rule.name: one.state for one in await check_invariants(database, EVENT_INVARIANTS)}
    assert verdicts.pop("no event waits") == "broken", "a replay is overdue a minute after its time"
    assert set(verdicts.values()) == {"held"}


async def test_replays_break_no_event_rule(letters_api: httpx.AsyncClient, database: Database) -> None:
    """A replay is not a new event: it has no number and can be sent any number of times."""
    letter_id = await bury(database, aggregate_id=uuid4(), seq=1)
    for _ in range(3):
        await replay(letters_api, letter_id)
        await send_everything(database)
    await replay(letters_api, letter_id)
    verdicts = await check_invariants(database, RULES)
    assert [one.rule.name for one in verdicts if one.state != "held"] == []


async def test_dry_run_counts_and_changes_nothing(letters_api: httpx.AsyncClient, database: Database) -> None:
    for body in (b"{}", b"{}", b"{}", b"{"):
        await bury(database, body)
    await bury(database, queue="gone")
    bulk = await replay_all(letters_api, filter={"all": True}, limit=2, rate_per_second=1)
    assert bulk == {"dry_run": True, "matched": 5, "replayed": 2, "refused": 2, "left": 1, "seconds": 1.0}
    assert await replays(database) == await audited(database) == []
    assert {row["state"] for row in await stored(database)} == {"waiting"}
    bulk = await replay_all(letters_api, filter={"all": True}, dry_run=False)
    assert (bulk["matched"], bulk["replayed"], bulk["refused"], bulk["left"]) == (5, 3, 2, 0)


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_empty_filter_is_refused(letters_api: httpx.AsyncClient, database: Database, act: str) -> None:
    await bury(database)
    body = {"filter": {}, "dry_run": False} | ({"reason": "x"} if act == "discard" else {})
    answer = await letters_api.post(f"/v1/dead-letters/{act}", headers=OPERATOR, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "dead_letter_filter_empty")
    del body["filter"]
    answer = await letters_api.post(f"/v1/dead-letters/{act}", headers=OPERATOR, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert (await stored(database))[0]["state"] == "waiting"


async def test_decided_letters_are_replayed_only_by_state(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    letter_id = await bury(database)
    await replay(letters_api, letter_id)
    await send_everything(database)
    assert (await replay_all(letters_api, filter={"all": True}, dry_run=False))["matched"] == 0
    bulk = await replay_all(letters_api, filter={"queue": "audit_log_queue"}, state="replayed", dry_run=False)
    assert (bulk["matched"], bulk["replayed"]) == (1, 1)


async def test_locked_letters_are_skipped(letters_api: httpx.AsyncClient, database: Database) -> None:
    held, free = await bury(database), await bury(database)
    async with database.transaction() as db:
        await db.execute("SELECT FROM dead_letters WHERE id = $1 FOR UPDATE", held)
        bulk = await replay_all(letters_api, filter={"all": True}, dry_run=False)
    assert (bulk["replayed"], bulk["left"]) == (1, 1)
    assert [row["aggregate_id"] for row in await replays(database)] == [free]


async def test_bulk_replay_is_audited_with_filter_and_counts(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    operator = Person("operator")
    await bury(database)
    await bury(database, b"{")
    wanted = {"queue": "audit_log_queue", "reason": "KeyError"}
    await replay_all(letters_api, operator.headers, filter=wanted, rate_per_second=7, dry_run=False)
    (line,) = await audited(database)
    assert (line["actor_id"], line["action"]) == (operator.id, "dead_letters_replayed")
    assert (line["subject_kind"], line["subject_id"]) == ("dead_letters", "audit_log_queue")
    assert line["data"] == {
        "filter": {**wanted, "state": "waiting"},
        "matched": 2,
        "done": 1,
        "refused": 1,
        "rate_per_second": 7,
    }


async def test_repeated_request_replays_once(letters_api: httpx.AsyncClient, database: Database) -> None:
    for _ in range(2):
        await bury(database)
    headers = bearer("operator", uuid4()) | {"idempotency-key": "k"}
    first = await replay_all(letters_api, headers, filter={"all": True}, limit=1, dry_run=False)
    again = await replay_all(letters_api, headers, filter={"all": True}, limit=1, dry_run=False)
    assert first == again
    assert len(await replays(database)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_per_second": 0},
        {"rate_per_second": 1001},
        {"limit": 0},
        {"limit": 10_001},
        {"filter": {"colour": "red"}},
        {"filter": {"reason": "r" * 256}},
        {"filter": {"reason": None}},
        {"filter": {"all": False}},
        {"filter": None},
        {"state": "lost"},
        {"dry_run": "perhaps"},
        {"dry_run": 0},
        {"filter": {"died_after": 0}},
        {"everything": True},
    ],
)
async def test_invalid_replay_requests_are_refused(
    letters_api: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    answer = await letters_api.post(
        "/v1/dead-letters/replay", headers=OPERATOR, json={"filter": {"all": True}} | wrong
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


async def test_ten_thousand_letters_are_replayed_at_once(database: Database, targets: ReplayTargets) -> None:
    await execute(
        database,
        "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
        " SELECT gen_random_uuid(), 'audit_log_queue', gen_random_uuid(), 'users.events', 'user.created',"
        "   'KeyError', '{\"seq\": 1, \"retries\": 3}', '{}' FROM generate_series(1, 10001)",
    )
    outcome = await database.run(
        lambda db: dead_letters.replay_letters(
            db, Filter(reason="KeyError"), rate_per_second=1000, dry_run=False, targets=targets, by=None
        )
    )
    assert (outcome.matched, outcome.done, outcome.left) == (10_001, 10_000, 1)
    waiting = await replays(database)
    assert len(waiting) == 10_000
    assert {msgspec.json.decode(row["headers"], type=Headers) for row in waiting} == {Headers(seq=1)}
    assert waiting[-1]["leased_until"] - waiting[0]["leased_until"] == timedelta(seconds=9.999)
