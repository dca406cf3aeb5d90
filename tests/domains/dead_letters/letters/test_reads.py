"""Groups, lists and single letters by HTTP."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.dead_letters.example_letters import audited, bury, execute, stored
from tests.domains.people.person import Person
from tests.servers import on_one_stack

pytestmark = on_one_stack

OPERATOR = bearer("operator")


async def listed(api: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await api.get("/v1/dead-letters", params=query, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ids(api: httpx.AsyncClient, **query: Any) -> list[UUID]:
    return [UUID(item["id"]) for item in (await listed(api, **query))["items"]]


async def age(database: Database, letter_id: UUID, **by: float) -> None:
    await execute(
        database,
        "UPDATE dead_letters SET died_at = clock_timestamp() - $2::interval WHERE id = $1",
        letter_id,
        timedelta(**by),
    )


async def test_list_has_pages_with_the_newest_first(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    newest_first = [await bury(database) for _ in range(5)][::-1]
    # Letters with the same time of death: each is shown exactly once.
    await execute(
        database, "UPDATE dead_letters SET died_at = now() WHERE id = ANY ($1::uuid[])", newest_first[:3]
    )
    seen: list[UUID] = []
    after: dict[str, str] = {}
    while len(seen) < 5:
        page = await listed(letters_api, limit=2, **after)
        seen += [UUID(item["id"]) for item in page["items"]]
        after = {"after": page["next"]}
    assert page["next"] is None
    assert seen == newest_first
    assert await ids(letters_api, after=str(uuid4())) == []


async def test_each_filter_selects_matching_rows(letters_api: httpx.AsyncClient, database: Database) -> None:
    one = await bury(database, queue="a", reason="x", key="user.created")
    two = await bury(database, queue="a", reason="y", key="user.rejected")
    old = await bury(database, queue="b", reason="x", key="user.created")
    await age(database, old, hours=2)
    message_id = next(row["message_id"] for row in await stored(database) if row["id"] == two)
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    expected: list[tuple[dict[str, object], list[UUID]]] = [
        ({}, [two, one, old]),
        ({"queue": "a"}, [two, one]),
        ({"reason": "x"}, [one, old]),
        ({"queue": "a", "reason": "x"}, [one]),
        ({"key": "user.rejected"}, [two]),
        ({"message_id": str(message_id)}, [two]),
        ({"died_after": an_hour_ago}, [two, one]),
        ({"died_before": an_hour_ago}, [old]),
        ({"queue": "a", "died_before": an_hour_ago}, []),
    ]
    for query, found in expected:
        assert await ids(letters_api, **query) == found, query


async def test_waiting_letters_are_listed_by_default(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    waiting, replayed, discarded = [await bury(database) for _ in range(3)]
    await letters_api.post(f"/v1/dead-letters/{replayed}/replay", headers=OPERATOR)
    await letters_api.post(
        f"/v1/dead-letters/{discarded}/discard", headers=OPERATOR, json={"reason": "a test"}
    )
    assert await ids(letters_api) == [waiting]
    assert await ids(letters_api, state="replayed") == [replayed]
    assert await ids(letters_api, state="discarded") == [discarded]
    assert await ids(letters_api, state="any") == [discarded, replayed, waiting]


@pytest.mark.parametrize(
    "query",
    [
        {"state": "lost"},
        {"queue": ""},
        {"queue": "q" * 256},
        {"reason": "r" * 256},
        {"key": "k" * 256},
        {"message_id": "7"},
        {"died_after": "yesterday"},
        {"died_after": "1767225600"},
        {"died_after": "2026-01-01T00:00:00"},
        {"after": "7"},
        {"limit": 0},
        {"limit": 101},
    ],
)
async def test_invalid_filters_are_refused(letters_api: httpx.AsyncClient, query: dict[str, Any]) -> None:
    answer = await letters_api.get("/v1/dead-letters", params=query, headers=OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z"])
async def test_first_and_last_moment_are_accepted(letters_api: httpx.AsyncClient, moment: str) -> None:
    await listed(letters_api, died_after=moment, died_before=moment)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-12:00"])
async def test_moments_out_of_range_are_refused(letters_api: httpx.AsyncClient, moment: str) -> None:
    answer = await letters_api.get("/v1/dead-letters", params={"died_after": moment}, headers=OPERATOR)
    assert answer.status_code == 422
    assert [error["code"] for error in answer.json()["errors"]] == ["moment_implausible"]


async def test_list_has_the_shape_of_a_body_without_values(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    body = b'{"name": "Ana Souza", "age": 7351894, "ok": true, "gone": null, "ana@example.com": ["Rua 7"]}'
    await bury(database, body)
    answer = await letters_api.get("/v1/dead-letters", headers=OPERATOR)
    (item,) = answer.json()["items"]
    assert item["shape"] == {
        "name": "[text]",
        "age": "[number]",
        "ok": "[boolean]",
        "gone": "[null]",
        "[field 5]": ["[text]"],
    }
    assert item["size_bytes"] == len(body)
    for secret in ("Ana", "7351894", "example", "Rua"):
        assert secret not in answer.text


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b'{"a": "' + b"x" * 20_000 + b'"}'])
async def test_body_without_a_shape_has_a_size(
    letters_api: httpx.AsyncClient, database: Database, body: bytes
) -> None:
    await bury(database, body)
    ((item,), _) = (await listed(letters_api)).values()
    assert (item["shape"], item["size_bytes"]) == (None, len(body))


async def test_groups_are_counted_with_the_largest_first(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    kinds = [("a", "x"), ("b", "x"), ("b", "x"), ("b", "y")]
    found = [await bury(database, queue=queue, reason=reason) for queue, reason in kinds]
    await age(database, found[1], hours=3)
    decided = await bury(database)
    await letters_api.post(f"/v1/dead-letters/{decided}/replay", headers=OPERATOR)
    answer = await letters_api.get("/v1/dead-letters/groups", headers=OPERATOR)
    groups = answer.json()["items"]
    assert [(one["queue"], one["reason"], one["count"]) for one in groups] == [
        ("b", "x", 2),
        ("a", "x", 1),
        ("b", "y", 1),
    ]
    died = {row["id"]: row["died_at"] for row in await stored(database)}
    assert datetime.fromisoformat(groups[0]["oldest_at"]) == died[found[1]]
    assert datetime.fromisoformat(groups[0]["newest_at"]) == died[found[2]]


BODIES = [
    (b'{"name": "Ana"}', {"form": "json", "value": {"name": "Ana"}}),
    (b"[1, 2.5, null]", {"form": "json", "value": [1, 2.5, None]}),
    (b'{"name": "Ana', {"form": "text", "value": '{"name": "Ana'}),
    (b'{"a": 1, "a": 2}', {"form": "text", "value": '{"a": 1, "a": 2}'}),
    (b'"\\ud800"', {"form": "text", "value": '"\\ud800"'}),
    (b"", {"form": "text", "value": ""}),
    (b"a\x00b", {"form": "text", "value": "a\x00b"}),
    (b"\xff\x00", {"form": "base64", "value": base64.b64encode(b"\xff\x00").decode()}),
    (b"[" * 5000 + b"]" * 5000, {"form": "text", "value": "[" * 5000 + "]" * 5000}),
]


@pytest.mark.parametrize(("body", "shown"), BODIES, ids=range(len(BODIES)))
async def test_letter_is_read_with_its_whole_body(
    letters_api: httpx.AsyncClient, database: Database, body: bytes, shown: dict[str, Any]
) -> None:
    letter_id = await bury(database, body, trace="a-request")
    answer = await letters_api.get(f"/v1/dead-letters/{letter_id}", headers=OPERATOR)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["body"], found["original_body"]) == (shown, None)
    assert found["headers"] == {
        "queue": "audit_log_queue",
        "reason": "KeyError",
        "retries": 3,
        "trace": "a-request",
    }


async def test_body_of_a_megabyte_is_read_whole(letters_api: httpx.AsyncClient, database: Database) -> None:
    body = bytes(range(256)) * 4096
    letter_id = await bury(database, body)
    answer = await letters_api.get(f"/v1/dead-letters/{letter_id}", headers=OPERATOR)
    assert base64.b64decode(answer.json()["body"]["value"]) == body


async def test_read_of_a_letter_is_audited_but_not_a_list(
    letters_api: httpx.AsyncClient, database: Database
) -> None:
    operator = Person("operator")
    letter_id = await bury(database, b'{"name": "Ana"}')
    for path in ("/v1/dead-letters", "/v1/dead-letters/groups"):
        await letters_api.get(path, headers=operator.headers)
    assert await audited(database) == []
    await letters_api.get(f"/v1/dead-letters/{letter_id}", headers=operator.headers)
    (line,) = await audited(database)
    assert (line["actor_id"], line["action"]) == (operator.id, "dead_letter_read")
    assert (line["subject_kind"], line["subject_id"]) == ("dead_letter", str(letter_id))
    assert "Ana" not in str(line)


async def test_unknown_letter_is_not_found(letters_api: httpx.AsyncClient, database: Database) -> None:
    path = f"/v1/dead-letters/{uuid4()}"
    answers = [
        await letters_api.get(path, headers=OPERATOR),
        await letters_api.put(f"{path}/body", headers=OPERATOR, json={"body": {}}),
        await letters_api.post(f"{path}/replay", headers=OPERATOR),
        await letters_api.post(f"{path}/discard", headers=OPERATOR, json={"reason": "none"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "not_found")] * 4
    assert await audited(database) == []
