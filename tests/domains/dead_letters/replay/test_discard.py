"""Discards: with a reason, reported to the queue, never after a sent replay."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from catraca.domains import dead_letters
from catraca.domains.dead_letters import Filter, OpenLetter, ReplayTarget, ReplayTargets
from catraca.platform.database import Database, Db
from tests.conftest import bearer
from tests.domains.dead_letters.conftest import DiscardLog
from tests.domains.dead_letters.example_letters import (
    STRICT,
    audited,
    bury,
    execute,
    of,
    replays,
    send_everything,
    stored,
)
from tests.domains.people.person import Person
from tests.servers import on_one_stack

pytestmark = on_one_stack

OPERATOR = bearer("operator")


async def discard(
    api: httpx.AsyncClient, letter_id: UUID, reason: str = "a test", headers: dict[str, str] = OPERATOR
) -> httpx.Response:
    return await api.post(f"/v1/dead-letters/{letter_id}/discard", headers=headers, json={"reason": reason})


async def test_discarded_letter_has_operator_time_and_reason(
    letters_api: httpx.AsyncClient, database: Database, discards: DiscardLog
) -> None:
    operator = Person("operator")
    letter_id = await bury(database, b'{"name": "Ana"}', queue=STRICT)
    answer = await discard(letters_api, letter_id, "Ana wrote to us", operator.headers)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["state"], found["decided_by"]) == ("discarded", str(operator.id))
    assert (found["decision_reason"], found["decided_at"] is not None) == ("Ana wrote to us", True)
    (line,) = await audited(database)
    assert (line["actor_id"], line["action"]) == (operator.id, "dead_letter_discarded")
    assert "Ana" not in str(line), "the audit log is kept for ever, a reason is not"
    (discarded,) = discards.letters
    assert (discarded.id, discarded.body, discarded.state) == (letter_id, b'{"name": "Ana"}', "discarded")


async def test_second_discard_changes_nothing(
    letters_api: httpx.AsyncClient, database: Database, discards: DiscardLog
) -> None:
    letter_id = await bury(database, queue=STRICT)
    await discard(letters_api, letter_id, "first")
    before = await of(database, letter_id)
    assert (await discard(letters_api, letter_id, "second")).json()["decision_reason"] == "first"
    assert await of(database, letter_id) == before
    assert len(discards.letters) == len(await audited(database)) == 1


async def test_discard_withdraws_an_unsent_replay(
    letters_api: httpx.AsyncClient, database: Database, discards: DiscardLog
) -> None:
    letter_id = await bury(database, queue=STRICT)
    await letters_api.post(f"/v1/dead-letters/{letter_id}/replay", headers=OPERATOR)
    assert (await discard(letters_api, letter_id)).status_code == 200
    assert await replays(database) == []
    assert len(discards.letters) == 1


@pytest.mark.parametrize("how_far", ["being sent", "sent"])
async def test_sent_replay_cannot_be_discarded(
    letters_api: httpx.AsyncClient, database: Database, discards: DiscardLog, how_far: str
) -> None:
    """It may have been handled already, so `on_discard` would be wrong."""
    letter_id = await bury(database, queue=STRICT)
    await letters_api.post(f"/v1/dead-letters/{letter_id}/replay", headers=OPERATOR)
    if how_far == "sent":
        await send_everything(database)
    else:
        await execute(database, "UPDATE outbox SET lease = gen_random_uuid()")
    answer = await discard(letters_api, letter_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "dead_letter_replayed")
    assert (await of(database, letter_id))["state"] == "replayed"
    assert discards.letters == []


async def test_bulk_discard_takes_letters_of_any_body(
    letters_api: httpx.AsyncClient, database: Database, discards: DiscardLog
) -> None:
    meant = [await bury(database, body, queue=STRICT, reason="x") for body in (b"{", b"{}", b"\xff")]
    others = [await bury(database, queue=STRICT, reason="y"), await bury(database, reason="x")]
    body: dict[str, Any] = {"filter": {"queue": STRICT, "reason": "x"}, "reason": "a test"}
    dry = await letters_api.post("/v1/dead-letters/discard", headers=OPERATOR, json=body)
    assert dry.json() == {"dry_run": True, "matched": 3, "discarded": 3, "left": 0}
    assert {row["state"] for row in await stored(database)} == {"waiting"}
    assert discards.letters == await audited(database) == []
    wet = await letters_api.post(
        "/v1/dead-letters/discard", headers=OPERATOR, json=body | {"dry_run": False, "limit": 2}
    )
    assert wet.json() == {"dry_run": False, "matched": 3, "discarded": 2, "left": 1}
    assert {letter.id for letter in discards.letters} == set(meant[:2])
    states = {row["id"]: row["state"] for row in await stored(database)}
    assert states == dict.fromkeys(meant[:2], "discarded") | dict.fromkeys([meant[2], *others], "waiting")
    (line,) = await audited(database)
    assert (line["action"], line["data"]["done"]) == ("dead_letters_discarded", 2)
    assert "a test" not in str(line)


async def test_bulk_discard_withdraws_unsent_replays(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    """Another copy of the message died, so the letter waits again."""
    letter_id = await bury(database)
    await letters_api.post(f"/v1/dead-letters/{letter_id}/replay", headers=OPERATOR)
    await execute(database, "UPDATE dead_letters SET state = 'waiting', decided_at = NULL, decided_by = NULL")
    body = {"filter": {"all": True}, "reason": "a test", "dry_run": False}
    answer = await letters_api.post("/v1/dead-letters/discard", headers=OPERATOR, json=body)
    assert answer.json()["discarded"] == 1
    assert await replays(database) == []


async def test_failure_of_on_discard_stops_the_discard(database: Database) -> None:
    """`on_discard` and the discard commit together or not at all."""

    async def refuse(_db: Db, _letters: object) -> None:
        raise KeyError

    targets: ReplayTargets = {STRICT: ReplayTarget(lambda _key, _body: None, refuse)}
    letter_id = await bury(database, queue=STRICT)
    with pytest.raises(KeyError):
        await database.run(
            lambda db: dead_letters.discard_letter(db, letter_id, reason="x", targets=targets, by=None)
        )
    with pytest.raises(KeyError):
        await database.run(
            lambda db: dead_letters.discard_letters(
                db, Filter(queue=STRICT), reason="x", dry_run=False, targets=targets, by=None
            )
        )
    assert (await of(database, letter_id))["state"] == "waiting"
    assert await audited(database) == []


async def test_bodies_are_read_in_small_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catraca.domains.dead_letters.replay.service.BODIES_AT_ONCE", 2)
    calls: list[list[OpenLetter]] = []

    async def add(_db: Db, letters: Any) -> None:
        calls.append(list(letters))

    for _ in range(5):
        await bury(database, queue=STRICT)
    targets: ReplayTargets = {STRICT: ReplayTarget(lambda _key, _body: None, add)}
    await database.run(
        lambda db: dead_letters.discard_letters(
            db, Filter(queue=STRICT), reason="x", dry_run=False, targets=targets, by=None
        )
    )
    assert [len(call) for call in calls] == [2, 2, 1]


@pytest.mark.parametrize("reason", ["", "   ", "r" * 301, None, 7])
async def test_discard_needs_a_reason(
    letters_api: httpx.AsyncClient, database: Database, reason: object
) -> None:
    letter_id = await bury(database)
    for path, more in (
        (f"{letter_id}/discard", {}),
        ("discard", {"filter": {"all": True}, "dry_run": False}),
    ):
        answer = await letters_api.post(
            f"/v1/dead-letters/{path}", headers=OPERATOR, json={"reason": reason, **more}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
