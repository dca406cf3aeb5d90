"""Edits: only bodies that the queue can read; the first body is kept."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from catraca.domains import dead_letters
from catraca.domains.dead_letters import LetterId, ReplayTargets
from catraca.domains.dead_letters.replay.errors import DeadLetterBodyUnfit
from catraca.events import UserCreated
from catraca.platform.database import Database
from catraca.platform.errors import BodyTooLarge
from catraca.platform.event import encode
from tests.conftest import bearer
from tests.domains.dead_letters.example_letters import STRICT, audited, bury, die_again, execute, of, replays
from tests.domains.people.person import Person
from tests.servers import on_one_stack

pytestmark = on_one_stack

OPERATOR = bearer("operator")
VALID = msgspec.json.decode(encode(UserCreated(user_id=uuid4(), roles=("driver",))))


async def edit(
    api: httpx.AsyncClient, letter_id: UUID, body: Any, headers: dict[str, str] = OPERATOR
) -> httpx.Response:
    return await api.put(f"/v1/dead-letters/{letter_id}/body", headers=headers, json={"body": body})


async def replay(api: httpx.AsyncClient, letter_id: UUID) -> httpx.Response:
    return await api.post(f"/v1/dead-letters/{letter_id}/replay", headers=OPERATOR)


@pytest.mark.parametrize("body", [{"name": "é", "n": [1, None]}, [], "text", 0, None, True])
async def test_edited_letter_has_both_bodies(
    letters_api: httpx.AsyncClient, database: Database, body: Any
) -> None:
    letter_id = await bury(database, b"{")
    operator = Person("operator")
    answer = await edit(letters_api, letter_id, body, operator.headers)
    assert answer.status_code == 200
    assert (answer.json()["replayable"], answer.json()["edited_by"]) == (True, str(operator.id))
    found = (await letters_api.get(f"/v1/dead-letters/{letter_id}", headers=OPERATOR)).json()
    assert found["body"] == {"form": "json", "value": body}
    assert found["original_body"] == {"form": "text", "value": "{"}
    assert found["edited_at"] is not None


async def test_first_body_is_kept_through_edits(letters_api: httpx.AsyncClient, database: Database) -> None:
    letter_id = await bury(database, b"first")
    for number in range(3):
        assert (await edit(letters_api, letter_id, number)).status_code == 200
    row = await of(database, letter_id)
    assert (row["original_body"], row["body"], row["version"]) == (b"first", b"2", 4)


async def test_unreadable_body_is_refused_and_nothing_changes(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    letter_id = await bury(database, b"{", queue=STRICT)
    await replay(letters_api, letter_id)
    before = await of(database, letter_id)
    for unfit in ({}, None, [VALID], {**VALID, "user_id": "Ana Souza"}, {**VALID, "event_type": "user.gone"}):
        answer = await edit(letters_api, letter_id, unfit)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "dead_letter_body_unfit")
        assert (problem["queue"], problem["reason"]) == (STRICT, "wrong_shape")
        assert "Ana" not in answer.text
    assert await of(database, letter_id) == before
    assert [line["action"] for line in await audited(database)] == []
    assert (await edit(letters_api, letter_id, VALID)).status_code == 200


async def test_unknown_key_or_queue_accepts_any_json(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    for letter_id in (await bury(database, queue=STRICT, key="user.new"), await bury(database, queue="gone")):
        assert (await edit(letters_api, letter_id, {"any": "thing"})).status_code == 200


async def test_edit_is_audited_without_the_body(letters_api: httpx.AsyncClient, database: Database) -> None:
    operator = Person("operator")
    letter_id = await bury(database)
    await edit(letters_api, letter_id, {"name": "Ana"}, operator.headers)
    (line,) = await audited(database)
    assert (line["actor_id"], line["action"], line["subject_id"]) == (
        operator.id,
        "dead_letter_edited",
        str(letter_id),
    )
    assert "Ana" not in str(line)


async def test_edit_withdraws_an_unsent_replay(letters_api: httpx.AsyncClient, database: Database) -> None:
    letter_id = await bury(database, b'"old"')
    await replay(letters_api, letter_id)
    await edit(letters_api, letter_id, "new")
    assert await replays(database) == []
    assert (await of(database, letter_id))["state"] == "waiting"
    await replay(letters_api, letter_id)
    assert [row["body"] for row in await replays(database)] == ['"new"']


async def test_replay_being_sent_stays_and_the_new_body_follows(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    letter_id = await bury(database, b'"old"')
    await replay(letters_api, letter_id)
    await execute(
        database, "UPDATE outbox SET lease = gen_random_uuid(), leased_until = now() + interval '6 s'"
    )
    await edit(letters_api, letter_id, "new")
    await replay(letters_api, letter_id)
    # In the order in which they are sent.
    rows = sorted(await replays(database), key=lambda row: row["seq"])
    assert [row["body"] for row in rows] == ['"old"', '"new"']


async def test_unedited_message_does_not_undo_an_edit(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    """The message was replayed before the edit and failed after it."""
    letter_id = await bury(database, b'"old"')
    await replay(letters_api, letter_id)
    await execute(database, "DELETE FROM outbox")
    await edit(letters_api, letter_id, "new")
    await die_again(database, letter_id, body=b'"old"')
    row = await of(database, letter_id)
    assert (row["body"], row["original_body"], row["times"]) == (b'"new"', b'"old"', 2)
    await die_again(database, letter_id, body=b'"newer"')
    row = await of(database, letter_id)
    assert (row["body"], row["original_body"], row["times"]) == (b'"newer"', b'"old"', 3)


async def test_bodies_from_the_command_line_are_checked(database: Database, targets: ReplayTargets) -> None:
    async def try_editing(letter_id: LetterId, body: bytes) -> None:
        await database.run(lambda db: dead_letters.edit_letter(db, letter_id, body, targets=targets, by=None))

    strict, gone = await bury(database, queue=STRICT), await bury(database, queue="gone")
    for body in (b"", b"{", b"\xff", b"NaN", b'"\x00"', b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(DeadLetterBodyUnfit):
            await try_editing(strict, body)
        with pytest.raises(DeadLetterBodyUnfit) as refused:
            await try_editing(gone, body)
        assert refused.value.data["reason"] == "malformed_json"
    with pytest.raises(BodyTooLarge):
        await try_editing(gone, b'"' + b"x" * 1024 * 1024 + b'"')
    await try_editing(gone, b'{"a":   1}')
    assert (await of(database, gone))["body"] == b'{"a":   1}'
    (line,) = await audited(database)
    assert (line["actor_id"], line["data"]["by"]) == (None, "command line")
