"""The audit log by HTTP: filters, pages and indexes."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains.audit.model import Filter
from catraca.domains.audit.store import find_entries
from catraca.platform.database import Database, Db, Row
from catraca.platform.ids import new_id
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.people.person import Person
from tests.servers import Stack, on_one_stack
from tests.support.http import served
from tests.support.roles import own_parts

pytestmark = on_one_stack

OPERATOR = bearer("operator")
NOON = datetime(2031, 5, 30, 12, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Line:
    at: datetime = NOON
    action: str = "ride.matched"
    subject_kind: str = "ride"
    subject_id: str = "one"
    actor_id: UUID | None = None
    id: UUID = field(default_factory=new_id)


@pytest.fixture(scope="session")
async def own(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings) as parts:
        yield parts


@pytest.fixture(scope="session")
async def audit_api(own: Parts) -> AsyncIterator[httpx.AsyncClient]:
    async with served(own) as serving, serving.client() as client:
        yield client


@pytest.fixture
async def log(own: Parts) -> Database:
    """An empty audit log."""
    async with own.database.transaction() as db:
        await db.execute("ALTER TABLE audit_log DISABLE TRIGGER ALL")
        await db.execute("TRUNCATE audit_log")
        await db.execute("ALTER TABLE audit_log ENABLE TRIGGER ALL")
    return own.database


async def write(database: Database, *lines: Line) -> None:
    async with database.connection() as db:
        await db.executemany(
            "INSERT INTO audit_log (id, at, actor_id, action, subject_kind, subject_id)"
            " VALUES ($1, $2, $3, $4, $5, $6)",
            [(one.id, one.at, one.actor_id, one.action, one.subject_kind, one.subject_id) for one in lines],
        )


async def page(api: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await api.get("/v1/audit", params=query, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def found(api: httpx.AsyncClient, **query: Any) -> list[UUID]:
    return [UUID(item["id"]) for item in (await page(api, **query))["items"]]


async def test_entries_have_pages_with_the_newest_first(audit_api: httpx.AsyncClient, log: Database) -> None:
    # Three entries with the same time: each is shown exactly once.
    lines = [Line(at=NOON + timedelta(minutes=minutes)) for minutes in (0, 1, 1, 1, 2)]
    await write(log, *lines)
    seen: list[UUID] = []
    before: dict[str, str] = {}
    while len(seen) < 5:
        answer = await page(audit_api, limit=2, **before)
        seen += [UUID(item["id"]) for item in answer["items"]]
        before = {"before": answer["next"]}
    assert answer["next"] is None
    assert seen == [line.id for line in lines][::-1]
    assert await found(audit_api, before=uuid4()) == []


async def test_each_filter_selects_matching_rows(audit_api: httpx.AsyncClient, log: Database) -> None:
    ana, rui = uuid4(), uuid4()
    old = Line(at=NOON - timedelta(hours=1), actor_id=ana, action="ride.canceled")
    new = Line(subject_id="two", actor_id=rui)
    person = Line(action="password_link_issued", subject_kind="user", actor_id=ana)
    await write(log, old, new, person)
    noon, later = NOON.isoformat(), (NOON + timedelta(microseconds=1)).isoformat()
    expected: list[tuple[dict[str, object], list[Line]]] = [
        ({}, [person, new, old]),
        ({"subject_kind": "ride"}, [new, old]),
        ({"subject_id": "one"}, [person, old]),
        ({"subject_kind": "ride", "subject_id": "one"}, [old]),
        ({"action": "ride.canceled"}, [old]),
        ({"action": "password_link_issued"}, [person]),
        ({"actor_id": ana}, [person, old]),
        ({"actor_id": ana, "action": "ride.*"}, [old]),
        ({"from": noon}, [person, new]),
        ({"to": noon}, [old]),
        ({"from": noon, "to": later, "subject_kind": "user"}, [person]),
        ({"from": later}, []),
    ]
    for query, lines in expected:
        assert await found(audit_api, **query) == [line.id for line in lines], query


async def test_action_prefix_selects_all_its_actions(audit_api: httpx.AsyncClient, log: Database) -> None:
    lines = [
        Line(action=action, subject_kind=kind)
        for action, kind in [
            ("ride", "ride"),
            ("ride.matched", "ride"),
            ("ride.payment.expired", "ride"),
            ("rides.matched", "rides"),
            ("rideXmatched", "ride"),
        ]
    ]
    await write(log, *lines)
    _, matched, expired, _, _ = (line.id for line in lines)
    assert await found(audit_api, action="ride.*") == [expired, matched]
    assert await found(audit_api, action="ride.payment.*") == [expired]
    assert await found(audit_api, action="ride.matched.*") == []


async def test_constraint_refuses_an_action_of_another_subject(log: Database) -> None:
    """Patterns select by the subject kind, so they would miss a line that breaks this rule."""
    with pytest.raises(asyncpg.CheckViolationError, match="actions_name_their_subject"):
        await write(log, Line(action="ride.matched", subject_kind="user"))


@pytest.mark.parametrize("seed", range(3))
async def test_random_filters_match_a_reference_model(log: Database, seed: int) -> None:
    chance = random.Random(seed)
    actors = [uuid4() for _ in range(3)]
    kinds = {"ride": ["ride.matched", "ride.canceled"], "user": ["user.created", "signed_out"]}
    lines = [
        Line(
            at=NOON + timedelta(seconds=chance.randrange(10)),
            subject_kind=(kind := chance.choice(list(kinds))),
            action=chance.choice(kinds[kind]),
            subject_id=chance.choice("abc"),
            actor_id=chance.choice([None, *actors]),
        )
        for _ in range(80)
    ]
    await write(log, *lines)
    newest_first = sorted(lines, key=lambda line: (line.at, line.id), reverse=True)
    for _ in range(60):
        wanted = Filter(
            subject_kind=chance.choice([None, "ride", "user"]),
            subject_id=chance.choice([None, "a", "b"]),
            action=chance.choice([None, "ride.matched", "user.*", "ride.*", "signed_out"]),
            actor_id=chance.choice([None, *actors]),
            starts_at=chance.choice([None, NOON + timedelta(seconds=4)]),
            ends_at=chance.choice([None, NOON + timedelta(seconds=8)]),
        )
        last = chance.choice([None, chance.randrange(80)])
        rest = newest_first if last is None else newest_first[last + 1 :]
        async with log.connection() as db:
            before = None if last is None else newest_first[last].id
            entries = await find_entries(db, wanted, before=before, limit=20)
        assert [entry.id for entry in entries] == [line.id for line in rest if fits(line, wanted)][:20]


def fits(line: Line, wanted: Filter) -> bool:
    exact = (
        (wanted.subject_kind, line.subject_kind),
        (wanted.subject_id, line.subject_id),
        (wanted.actor_id, line.actor_id),
    )
    action = wanted.action or line.action
    return (
        all(expected in (None, value) for expected, value in exact)
        and (line.action.startswith(action[:-1]) if action.endswith("*") else line.action == action)
        and (wanted.starts_at is None or line.at >= wanted.starts_at)
        and (wanted.ends_at is None or line.at < wanted.ends_at)
    )


class Planned:
    """A connection that returns no rows and records the query plan."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.plan = ""

    async def fetch(self, query: str, *values: object) -> Sequence[Row]:
        rows = await self._db.fetch(f"EXPLAIN {query}", *values)
        self.plan = "\n".join(row["QUERY PLAN"] for row in rows)
        return []


SERVED_BY = [
    (Filter(), "audit_log_by_time"),
    (Filter(starts_at=NOON, ends_at=NOON + timedelta(days=1)), "audit_log_by_time"),
    (Filter(subject_kind="kind3"), "audit_log_by_kind"),
    (Filter(action="kind3.*"), "audit_log_by_kind"),
    (Filter(action="kind3.act3"), "audit_log_by_action"),
    (Filter(subject_id="4711"), "audit_log_by_subject"),
    (Filter(subject_kind="kind1", subject_id="4711"), "audit_log_by_subject"),
    (Filter(actor_id=UUID(int=3)), "audit_log_by_actor"),
]


async def test_each_filter_uses_an_index_in_its_order(log: Database) -> None:
    """The first page reads an index in its order: no sort, however long the log is."""
    async with log.connection() as db:
        await db.execute(
            "INSERT INTO audit_log (id, at, actor_id, action, subject_kind, subject_id)"
            " SELECT gen_random_uuid(), now() + n * interval '1 second',"
            "   CASE WHEN n % 3 = 0 THEN lpad(to_hex(n % 9), 32, '0')::uuid END,"
            "   'kind' || n % 5 || '.act' || n % 7, 'kind' || n % 5, n::text"
            " FROM generate_series(1, 10000) AS n"
        )
        await db.execute("ANALYZE audit_log")
        planned = Planned(db)
        for wanted, index in SERVED_BY:
            await find_entries(planned, wanted, before=None, limit=51)  # type: ignore[arg-type]
            assert f"using {index} on audit_log" in planned.plan, wanted
            assert "Sort" not in planned.plan, wanted
            # A later page may use another index or sort the few remaining rows, depending on statistics.
            await find_entries(planned, wanted, before=UUID(int=1), limit=51)  # type: ignore[arg-type]
            assert "audit_log_by_" in planned.plan, wanted
            assert "Seq Scan" not in planned.plan, wanted


async def test_operator_action_is_found_and_reads_add_no_entry(
    audit_api: httpx.AsyncClient, log: Database
) -> None:
    ana, operator = await Person().known_to(audit_api), uuid4()
    link = await audit_api.post(f"/v1/users/{ana.id}/password-link", headers=bearer("operator", operator))
    (entry,) = (await page(audit_api, actor_id=operator))["items"]
    assert (entry["action"], entry["subject_kind"], entry["subject_id"]) == (
        "password_link_issued",
        "user",
        str(ana.id),
    )
    assert entry["request_id"] == link.headers["x-request-id"]
    assert entry.keys() == {
        "id", "at", "actor_id", "action", "subject_kind", "subject_id", "data", "request_id",
    }  # fmt: skip
    assert await found(audit_api, limit=100) == [UUID(entry["id"])]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"action": "ride.*.matched"}, "string_pattern_mismatch"),
        ({"action": "*"}, "string_pattern_mismatch"),
        ({"action": "ride%"}, "string_pattern_mismatch"),
        ({"subject_id": ""}, "string_too_short"),
        ({"subject_kind": "k" * 201}, "string_too_long"),
        ({"actor_id": "ana"}, "uuid_parsing"),
        ({"from": "yesterday"}, "datetime_from_date_parsing"),
        ({"to": "2031-05-30T12:00:00"}, "timezone_aware"),
        ({"limit": 0}, "greater_than_equal"),
        ({"limit": 101}, "less_than_equal"),
        ({"before": "the last"}, "uuid_parsing"),
    ],
)
async def test_invalid_parameters_are_refused_by_name(
    audit_api: httpx.AsyncClient, query: dict[str, Any], code: str
) -> None:
    answer = await audit_api.get("/v1/audit", params=query, headers=OPERATOR)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["where"], error["code"]) == (f"query.{next(iter(query))}", code)
