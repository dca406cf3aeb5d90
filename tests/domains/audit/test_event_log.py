"""Every event adds one line to the audit log: ids only, no personal data."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from catraca.domains.audit.store import read_entries_about
from catraca.events import EVENTS
from catraca.platform.bus import Headers, Message
from catraca.platform.redaction import is_personal
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer, free_port, listening
from tests.domains.people.person import Person
from tests.servers import Stack, until
from tests.support.roles import own_parts, working

CREW = ["relay", "relay", "housekeeper", "housekeeper"]
PERSONAL_WORDS = {
    "name",
    "email",
    "phone",
    "address",
    "plate",
    "vehicle",
    "password",
    "token",
    "birth",
    "document",
}


@pytest.fixture(params=["postgres", pytest.param("rabbitmq", marks=pytest.mark.xdist_group("rabbitmq"))])
def broker_url(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if request.param == "rabbitmq" else None


@pytest.fixture
async def parts(stack: Stack, settings: Settings, broker_url: str | None) -> AsyncIterator[Parts]:
    """The parts of a whole Catraca, on either bus."""
    async with own_parts(stack, settings, port=free_port(), amqp_url=broker_url) as parts:
        yield parts


@pytest.fixture
async def client(parts: Parts) -> AsyncIterator[httpx.AsyncClient]:
    async with listening(parts) as url, httpx.AsyncClient(base_url=url, timeout=30) as client:
        yield client


async def lines_about(parts: Parts, subject_id: UUID) -> list[dict[str, Any]]:
    async with parts.database.connection() as db:
        rows = await db.fetch("SELECT * FROM audit_log WHERE subject_id = $1 ORDER BY at", str(subject_id))
    return [dict(row) for row in rows]


async def sent_about(parts: Parts, user_id: UUID) -> Message:
    """Wait until the user's event is in `outbox_sent`: a consumer may be faster than the relay."""

    async def sent_row() -> Any:
        async with parts.database.connection() as db:
            return await db.fetchrow("SELECT * FROM outbox_sent WHERE aggregate_id = $1", user_id)

    row = await until(sent_row)
    headers = replace(msgspec.json.decode(row["headers"], type=Headers), seq=row["seq"])
    return Message(
        id=row["id"],
        exchange=row["exchange"],
        key=row["routing_key"],
        body=row["body"].encode(),
        headers=headers,
    )


async def test_first_use_adds_one_entry_for_many_deliveries(parts: Parts, client: httpx.AsyncClient) -> None:
    ana = Person("driver")
    async with working(parts, CREW):
        answers = await asyncio.gather(*(client.get("/v1/me", headers=ana.headers) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        (line,) = await until(lambda: lines_about(parts, ana.id))
        message = await sent_about(parts, ana.id)
        # Like a relay that dies after it published and before it marked the message as sent.
        assert await parts.bus.publish([message] * 3) == [None] * 3
        rui = await Person().known_to(client)
        await until(lambda: lines_about(parts, rui.id))
    assert await lines_about(parts, ana.id) == [line]
    assert (line["actor_id"], line["action"], line["subject_kind"]) == (None, "user.created", "user")
    assert msgspec.json.decode(line["data"]) == {"event_id": str(message.id), "seq": 1}
    assert line["request_id"] in {answer.headers["x-request-id"] for answer in answers}


async def test_unreadable_body_is_an_entry_and_no_dead_letter(parts: Parts) -> None:
    garbage = Message(
        id=uuid4(), exchange="users.events", key="user.created", body=b"garbage", headers=Headers()
    )
    async with working(parts, CREW):
        assert await parts.bus.publish([garbage]) == [None]
        (line,) = await until(lambda: lines_about(parts, garbage.id))
    assert (line["actor_id"], line["action"]) == (None, "user.created")
    assert await everything(parts, "dead_letters") == ""


async def test_erased_user_leaves_nothing_in_sent_events(parts: Parts, client: httpx.AsyncClient) -> None:
    ana = Person("driver")
    profile = {"name": "Severino Lacerda", "email": ana.email, "phone": "+5571987654321"}
    car = {"vehicle": "Fiat Cronos", "plate": "ABC1D23"}
    async with working(parts, CREW):
        assert (await ana.change(client, **profile, driver=car)).status_code == 200
        await until(lambda: lines_about(parts, ana.id))
        letter = (await sent_about(parts, ana.id)).with_headers(queue="audit_log_queue", reason="KeyError")
        await parts.bus.publish([replace(letter, exchange="dlx")])
        await until(lambda: everything(parts, "dead_letters"))
        assert (await client.delete("/v1/me", headers=ana.headers)).status_code == 204
    kept = ""
    for table in (
        "outbox",
        "outbox_sent",
        "outbox_heads",
        "inbox",
        "bus_messages",
        "dead_letters",
        "audit_log",
    ):
        kept += await everything(parts, table)
    assert str(ana.id) in kept, "the tables have rows about the user"
    traces = [*profile.values(), *car.values(), "Severino", "98765", "Cronos"]
    assert not [trace for trace in traces if trace in kept]


async def everything(parts: Parts, table: str) -> str:
    """The table as text, and its bodies decoded."""
    async with parts.database.connection() as db:
        rows = await db.fetch(f"SELECT t::text AS row, to_jsonb(t) ->> 'body' AS body FROM {table} t")
    texts = [f"{row['row']} {row['body']}" for row in rows]
    return " ".join([*texts, *(decoded(row["body"]) for row in rows)])


def decoded(body: str | None) -> str:
    return bytes.fromhex(body[2:]).decode() if body and body.startswith("\\x") else ""


async def test_export_includes_the_user_created_entry(parts: Parts, client: httpx.AsyncClient) -> None:
    ana = await Person().known_to(client)
    async with working(parts, ["relay", "housekeeper"]):
        await until(lambda: lines_about(parts, ana.id))
    await client.post(f"/v1/users/{ana.id}/password-link", headers=bearer("operator"))
    sections = (await client.get("/v1/me/export", headers=ana.headers)).json()["sections"]
    assert [entry["action"] for entry in sections["audit"]] == ["password_link_issued", "user.created"]
    assert sections["people"]["id"] == str(ana.id)


def test_events_have_no_fields_for_personal_data() -> None:
    """The log and sent events are kept for long, and an erasure does not change them."""
    _, schemas = msgspec.json.schema_components(EVENTS)
    fields = {field for schema in schemas.values() for field in schema.get("properties", ())}
    assert "user_id" in fields, "no field was read"
    assert not {field for field in fields if is_personal(field) or PERSONAL_WORDS & set(field.split("_"))}


async def test_entry_without_a_subject_names_the_event(stack: Stack, settings: Settings) -> None:
    message = Message(id=uuid4(), exchange="users.events", key="user.created", body=b"\xff")
    async with own_parts(stack, settings) as parts, working(parts, ["housekeeper"]):
        assert await parts.bus.publish([message]) == [None]
        (line,) = await until(lambda: lines_about(parts, message.id))
        async with parts.database.connection() as db:
            assert len(await read_entries_about(db, "user", message.id)) == 1
    assert msgspec.json.decode(line["data"]) == {"event_id": str(message.id), "seq": 0}
