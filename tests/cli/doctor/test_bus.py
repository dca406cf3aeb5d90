"""The doctor on queues and dead letters."""

from dataclasses import replace
from uuid import uuid4

import aio_pika
import pytest

from catraca.events import TOPOLOGY
from catraca.platform.database.migrations import migrate
from catraca.roles.doctor import bus
from catraca.roles.doctor.bus import check_bus, judge_dead_letters, judge_queues
from catraca.roles.doctor.checkup import run_checks
from catraca.settings import Settings
from tests.cli.doctor.findings import execute, faults, named
from tests.servers import until

LETTER = (
    "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
    " VALUES (gen_random_uuid(), '{}', gen_random_uuid(), '', 'user.created', '{}', '{{}}', '')"
)
MESSAGES = (
    "INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
    " SELECT '{}', gen_random_uuid(), '', 'user.created', '{{}}', '' FROM generate_series(1, {})"
)


@pytest.fixture
async def own(sound: Settings, fresh_url: str) -> Settings:
    await migrate(fresh_url)
    return sound.changed(database_url=fresh_url)


async def test_depths_of_postgres_queues_are_reported(own: Settings) -> None:
    assert named(await check_bus(own), "Queues").found == "all empty"
    await execute(str(own.servers.database_url), MESSAGES.format("audit_log_queue", 7))
    finding = named(await run_checks(own), "Queues")
    assert (finding.verdict, finding.found) == ("ok", "waiting: 7 in audit_log_queue")


async def test_full_queue_is_reported_with_its_role(own: Settings) -> None:
    await execute(str(own.servers.database_url), MESSAGES.format("audit_log_queue", 10_001))
    finding = named(await check_bus(own), "Queues")
    assert (finding.verdict, finding.found) == ("warning", "waiting: 10001 in audit_log_queue")
    assert "`catraca serve housekeeper`" in finding.remedy


async def test_unstored_dead_letters_are_a_warning(own: Settings) -> None:
    await execute(str(own.servers.database_url), MESSAGES.format("dead_letter_queue", 1))
    assert faults(await check_bus(own)) == {"Queues": "warning"}


async def test_dead_letters_are_a_warning_with_queue_and_reason(own: Settings) -> None:
    assert named(await check_bus(own), "Dead letters").found == "none"
    statements = [LETTER.format("audit_log_queue", "KeyError")] * 2
    await execute(
        str(own.servers.database_url), *statements, LETTER.format("billing_events_queue", "ride_unknown")
    )
    findings = await run_checks(own)
    assert faults(findings) == {"Dead letters": "warning"}
    finding = named(findings, "Dead letters")
    assert finding.found == "2 of audit_log_queue (KeyError), 1 of billing_events_queue (ride_unknown)"
    assert "CATRACA_DEAD_LETTER_RETENTION" in finding.remedy


async def test_empty_database_gets_only_the_schema_finding(sound: Settings, fresh_url: str) -> None:
    findings = await run_checks(sound.changed(database_url=fresh_url))
    assert faults(findings) == {"Schema": "problem"}


@pytest.mark.xdist_group("rabbitmq")
async def test_undeclared_rabbitmq_queues_are_missing(
    own: Settings, amqp_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = own.changed(amqp_url=amqp_url)
    # Other tests may have declared the real queues on this broker.
    fresh = tuple(replace(queue, name=f"doctor_{uuid4().hex}") for queue in TOPOLOGY.queues)
    monkeypatch.setattr(bus, "TOPOLOGY", replace(TOPOLOGY, queues=fresh))
    names = [queue.name for queue in fresh]
    finding = named(await check_bus(settings), "Queues")
    assert (finding.verdict, finding.found) == ("warning", f"missing: {', '.join(names)}")
    assert "`catraca serve relay`" in finding.remedy
    connection = await aio_pika.connect(amqp_url)
    try:
        channel = await connection.channel()
        queues = [await channel.declare_queue(name, durable=True) for name in names]
        assert named(await check_bus(settings), "Queues").found == "all empty"
        for _ in range(3):
            await channel.default_exchange.publish(
                aio_pika.Message(b"{}", message_id=str(uuid4())), routing_key=names[0]
            )

        async def are_counted() -> bool:
            return named(await check_bus(settings), "Queues").found == f"waiting: 3 in {names[0]}"

        await until(are_counted)
    finally:
        for queue in queues:
            await queue.delete(if_empty=False, if_unused=False)
        await connection.close()


def test_queue_depths_decide_the_verdict() -> None:
    assert judge_queues({"audit_log_queue": 10_000}).verdict == "ok"
    assert judge_queues({"audit_log_queue": None, "dead_letter_queue": 3}).verdict == "warning"
    assert judge_dead_letters({}).verdict == "ok"
