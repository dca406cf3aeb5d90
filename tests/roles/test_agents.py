"""The housekeeper's agents: gauges of queues and dead letters, and the retention pruner."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from catraca.events import UserCreated
from catraca.platform.bus import Message, Topology
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import Db, outbox, retention
from catraca.roles.agents import retention_pruner
from catraca.roles.agents.queue_gauges import measure_dead_letters, measure_queues
from catraca.roles.agents.retention_pruner import RetentionPruner
from catraca.roles.parts import Parts
from catraca.roles.runner import Life
from catraca.settings import Settings
from tests.servers import Stack, on_one_stack, until
from tests.support.roles import own_parts, working


@pytest.fixture
async def parts(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    retentions = {"outbox_retention": timedelta(days=2), "dead_letter_retention": timedelta(days=3)}
    async with own_parts(stack, settings, **retentions) as parts:
        yield parts


def figures(name: str) -> dict[str, float]:
    """The values that /metrics would show, by their labels."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    lines = generate_latest(registry).decode().splitlines()
    found = [line.removeprefix(name).rsplit(" ", 1) for line in lines if line.startswith(f"{name}{{")]
    return {labels: float(value) for labels, value in found}


async def execute(parts: Parts, statement: str, *values: object) -> None:
    async with parts.database.connection() as db:
        await db.execute(statement, *values)


async def bury(parts: Parts, queue: str, reason: str) -> None:
    await execute(
        parts,
        "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
        " VALUES (gen_random_uuid(), $1, gen_random_uuid(), '', '', $2, '{}', '')",
        queue,
        reason,
    )


async def test_queue_depth_is_measured_for_every_queue(parts: Parts) -> None:
    message = Message(id=uuid4(), exchange="users.events", key="user.created", body=b"{}")
    await parts.bus.publish([message] * 3)
    await measure_queues(parts)
    found = figures("catraca_bus_queue_depth")
    depths = {queue.name: found[f'{{queue="{queue.name}"}}'] for queue in parts.topology.queues}
    reached = {"audit_log_queue": 3, "notification_users_queue": 3}
    assert depths == dict.fromkeys(depths, 0) | reached


async def test_retry_depth_is_measured_by_queue(parts: Parts) -> None:
    queue = f"q_{uuid4().hex}"
    live = replace(parts.topology.queue("audit_log_queue"), name=queue)
    topology = Topology(exchanges=parts.topology.exchanges, queues=(live,))
    await execute(
        parts,
        "INSERT INTO bus_delayed (due_at, queue, message_id, exchange, routing_key, headers, body)"
        f" SELECT 'infinity', '{queue}', gen_random_uuid(), '', '', '{{}}', '' FROM generate_series(1, 2)",
    )
    await measure_queues(replace(parts, bus=PostgresBus(parts.database, topology), topology=topology))
    assert figures("catraca_bus_retry_depth")[f'{{queue="{queue}"}}'] == 2


async def test_dead_letters_are_counted_by_group_down_to_zero(parts: Parts) -> None:
    queue = f"q_{uuid4().hex}"
    for reason in ("KeyError", "KeyError", "ride_unknown"):
        await bury(parts, queue, reason)

    async def counts() -> dict[str, float]:
        await measure_dead_letters(parts)
        return {labels: value for labels, value in figures("catraca_dead_letters").items() if queue in labels}

    one, two = f'{{queue="{queue}",reason="KeyError"}}', f'{{queue="{queue}",reason="ride_unknown"}}'
    assert await counts() == {one: 2, two: 1}
    await execute(parts, "DELETE FROM dead_letters WHERE reason = 'KeyError'")
    assert await counts() == {one: 0, two: 1}
    await bury(parts, queue, "KeyError")
    assert await counts() == {one: 1, two: 1}


async def test_housekeeper_measures_by_itself(parts: Parts) -> None:
    queue = f"q_{uuid4().hex}"
    await bury(parts, queue, "KeyError")
    async with working(parts, ["housekeeper"]):
        await until(
            lambda: figures("catraca_dead_letters").get(f'{{queue="{queue}",reason="KeyError"}}') == 1
        )


async def test_pruner_deletes_rows_past_their_retention_only(parts: Parts) -> None:
    event = UserCreated(user_id=uuid4(), roles=())
    await parts.database.run(lambda db: outbox.record(db, event, event))
    await execute(
        parts,
        "INSERT INTO outbox_sent"
        " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "        clock_timestamp() - CASE seq WHEN 1 THEN interval '49 hours' ELSE interval '47 hours' END"
        " FROM outbox",
    )
    # A dead letter may be replayed on its last day: its inbox row must still be there.
    await execute(
        parts,
        "INSERT INTO inbox (consumer, event_id, handled_at)"
        " SELECT 'q', gen_random_uuid(), clock_timestamp() - make_interval(hours => hours)"
        " FROM unnest('{95, 97}'::int[]) AS hours",
    )
    await bury(parts, "q", "old")
    await bury(parts, "q", "young")
    await execute(
        parts,
        "UPDATE dead_letters SET died_at = clock_timestamp()"
        " - CASE reason WHEN 'old' THEN interval '73 hours' ELSE interval '71 hours' END",
    )
    await RetentionPruner(parts).prune()
    async with parts.database.connection() as db:
        assert await db.fetchval("SELECT array_agg(seq) FROM outbox_sent") == [2]
        assert await db.fetchval("SELECT array_agg(reason) FROM dead_letters") == ["young"]
        assert await db.fetchval("SELECT count(*) FROM inbox") == 1


async def test_pruner_repeats_until_no_row_is_due(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 2)
    await execute(
        parts,
        "INSERT INTO inbox (consumer, event_id, handled_at)"
        " SELECT 'consumer', gen_random_uuid(), clock_timestamp() - interval '5 days'"
        " FROM generate_series(1, 7)",
    )
    await RetentionPruner(parts).prune()
    async with parts.database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM inbox WHERE consumer = 'consumer'") == 0


@on_one_stack
async def test_pruner_pauses_in_proportion_to_the_work(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, found, pauses = count(), iter((1, 1, 0)), list[float]()

    async def prune(db: Db) -> int:
        return next(found)

    async def within(seconds: float, *_: asyncio.Event) -> bool:
        pauses.append(seconds)
        return False

    monkeypatch.setattr(retention_pruner, "prunes_of", lambda _: {"rows": prune})
    monkeypatch.setattr(retention_pruner, "monotonic_seconds", lambda: float(next(clock)))
    monkeypatch.setattr(retention_pruner, "within", within)
    await RetentionPruner(parts).prune()
    assert pauses == [3.0, 3.0]


@on_one_stack
async def test_pruner_stops_between_transactions(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    life, runs = Life(), list[str]()

    async def prune(db: Db) -> int:
        runs.append("rows")
        if len(runs) == 2:
            life.stopping.set()
        return 1

    async def prune_others(db: Db) -> int:
        runs.append("others")
        return 0

    monkeypatch.setattr(retention_pruner, "prunes_of", lambda _: {"rows": prune, "others": prune_others})
    await RetentionPruner(parts).run(life)
    assert runs == ["rows", "rows"]
