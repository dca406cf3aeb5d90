"""The doctor on PostgreSQL, Redis and RabbitMQ."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import redis.asyncio

from catraca.platform import server_info
from catraca.platform.database.migrations import migrate
from catraca.platform.server_info import (
    ClockSkew,
    PostgresFacts,
    RabbitFacts,
    RedisFacts,
    Unreachable,
    ask_rabbitmq,
)
from catraca.roles.doctor import checkup
from catraca.roles.doctor.checkup import run_checks
from catraca.roles.doctor.findings import Finding, ok, version_of
from catraca.roles.doctor.postgres import judge_postgres
from catraca.roles.doctor.rabbitmq import judge_rabbitmq
from catraca.roles.doctor.redis import judge_redis
from catraca.settings import Settings, read_settings
from tests.cli.doctor.findings import execute, faults, named
from tests.conftest import free_port
from tests.servers import Stack

NO_SKEW = ClockSkew(0, 0)
POSTGRES = PostgresFacts(
    version="15.4",
    version_number=150004,
    settings={"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
    is_replica=False,
    is_read_only=False,
    connections_allowed=97,
    revision="0001",
    skew=NO_SKEW,
)
REDIS = RedisFacts(
    version="6.2.0",
    eviction_policy="noeviction",
    is_replica=False,
    used_bytes=10,
    limit_bytes=100,
    skew=NO_SKEW,
)


async def test_sound_installation_has_no_problem(sound: Settings) -> None:
    assert faults(await run_checks(sound)) == {}


async def test_empty_or_newer_schema_is_a_problem(sound: Settings, fresh_url: str) -> None:
    faulty = sound.changed(database_url=fresh_url)
    schema = named(await run_checks(faulty), "Schema")
    assert (schema.verdict, schema.remedy) == ("problem", "Run `catraca migrate`.")
    await migrate(fresh_url)
    assert faults(await run_checks(faulty)) == {}
    await execute(fresh_url, "UPDATE alembic_version SET version_num = '9999'")
    schema = named(await run_checks(faulty), "Schema")
    assert schema.verdict == "problem"
    assert "9999, which this version does not know" in schema.found


async def test_settings_of_the_database_count_too(sound: Settings, fresh_url: str) -> None:
    await migrate(fresh_url)
    name = fresh_url.partition("/doctor-")[2].partition("?")[0]
    await execute(
        fresh_url,
        f'ALTER DATABASE "doctor-{name}" SET synchronous_commit = off',
        f'ALTER DATABASE "doctor-{name}" SET default_transaction_read_only = on',
        f'ALTER DATABASE "doctor-{name}" CONNECTION LIMIT 10',
    )
    faulty = sound.changed(database_url=fresh_url)
    findings = await run_checks(faulty)
    assert faults(findings) == {"Durability": "problem", "Writing": "problem", "Connections": "problem"}
    assert "synchronous_commit is off" in named(findings, "Durability").found
    assert named(findings, "Connections").found.startswith("10 allowed, up to 15 needed")


@pytest.mark.parametrize(
    ("facts", "name", "words"),
    [
        (replace(POSTGRES, version="14.9", version_number=140009), "PostgreSQL", "version 14.9"),
        (replace(POSTGRES, settings=POSTGRES.settings | {"fsync": "off"}), "Durability", "fsync is off"),
        (
            replace(POSTGRES, settings=POSTGRES.settings | {"full_page_writes": "off"}),
            "Durability",
            "full_page_writes is off",
        ),
        (replace(POSTGRES, is_replica=True, is_read_only=True), "Writing", "read-only replica"),
        (replace(POSTGRES, connections_allowed=56), "Connections", "4 workers with 14 each"),
        (replace(POSTGRES, revision=None), "Schema", "empty"),
        (replace(POSTGRES, revision="0000"), "Schema", "does not know"),
    ],
)
def test_findings_follow_from_the_facts(
    facts: PostgresFacts, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catraca.roles.doctor.postgres.newest_revision", lambda: "0001")
    settings = read_settings(workers=4, database_connections=10)
    enough = replace(POSTGRES, connections_allowed=57)
    assert faults(judge_postgres(enough, settings)) == {}
    findings = judge_postgres(facts, settings)
    assert faults(findings) == {name: "problem"}
    assert words in named(findings, name).found


async def test_unreachable_database_hides_no_other_finding(sound: Settings, tmp_path: Path) -> None:
    for url in (
        f"postgresql://catraca:hunter2@127.0.0.1:{free_port()}/catraca",
        f"postgresql://catraca@/catraca?host={tmp_path}",
        "nonsense",
        None,
    ):
        findings = await run_checks(sound.changed(database_url=url))
        assert faults(findings) == {"PostgreSQL": "problem"}
        assert named(findings, "Redis").verdict == "ok"
        assert "hunter2" not in str(findings)


async def test_wrong_database_name_is_reported_in_the_servers_words(sound: Settings, stack: Stack) -> None:
    url = stack.database_url.replace("/catraca?", "/nowhere?")
    finding = named(await run_checks(sound.changed(database_url=url)), "PostgreSQL")
    assert 'database "nowhere" does not exist' in finding.found


async def test_full_or_evicting_redis_is_a_warning(sound: Settings, stack: Stack) -> None:
    client = redis.asyncio.from_url(stack.redis_url)
    before = {**await client.config_get("maxmemory"), **await client.config_get("maxmemory-policy")}
    used = (await client.info("memory"))["used_memory"]
    try:
        await client.config_set("maxmemory", int(used * 1.1))
        await client.config_set("maxmemory-policy", "allkeys-lru")
        findings = await run_checks(sound)
    finally:
        for name, value in before.items():
            await client.config_set(name, value)
        await client.aclose()
    assert faults(findings) == {"Eviction": "warning", "Memory of Redis": "warning"}
    assert "allkeys-lru" in named(findings, "Eviction").found


async def test_missing_redis_is_a_warning(sound: Settings, tmp_path: Path) -> None:
    for url in (
        f"unix://{tmp_path}/none.sock",
        f"redis://:hunter2@127.0.0.1:{free_port()}/0",
        None,
        "nonsense",
    ):
        findings = await run_checks(sound.changed(redis_url=url))
        assert faults(findings) == {"Redis": "warning"}
        assert "hunter2" not in str(findings)


def test_old_redis_is_a_problem_and_a_replica_a_warning() -> None:
    assert faults(judge_redis(REDIS)) == {}
    assert faults(judge_redis(replace(REDIS, version="6.0.16"))) == {"Redis": "problem"}
    assert faults(judge_redis(replace(REDIS, is_replica=True))) == {"Redis": "warning"}
    assert faults(judge_redis(replace(REDIS, used_bytes=81))) == {"Memory of Redis": "warning"}
    assert faults(judge_redis(replace(REDIS, used_bytes=81, limit_bytes=0))) == {}


def test_versions_compare_as_numbers() -> None:
    assert version_of("6.2.12-rc1") == (6, 2, 12)
    assert version_of("3.9.29") < (3, 10) <= version_of("3.10.0")
    assert version_of("10.0") > (6, 2)
    assert version_of("?") == ()


@pytest.mark.xdist_group("rabbitmq")
async def test_given_rabbitmq_is_checked(amqp_url: str) -> None:
    facts = await ask_rabbitmq(amqp_url)
    assert facts.product == "RabbitMQ"
    assert judge_rabbitmq(facts).verdict == "ok"
    with pytest.raises(Unreachable):
        await ask_rabbitmq(amqp_url.replace("guest:guest", "guest:hunter2"))


def test_old_rabbitmq_is_a_problem() -> None:
    assert judge_rabbitmq(RabbitFacts(product="RabbitMQ", version="3.9.13")).verdict == "problem"
    assert judge_rabbitmq(RabbitFacts(product="RabbitMQ", version="3.10.0")).verdict == "ok"
    assert judge_rabbitmq(RabbitFacts(product="Another", version="4.0")).verdict == "warning"


async def test_unreachable_rabbitmq_is_a_problem(sound: Settings) -> None:
    url = f"amqp://guest:hunter2@127.0.0.1:{free_port()}/"
    findings = await run_checks(sound.changed(amqp_url=url))
    assert faults(findings) == {"RabbitMQ": "problem"}
    assert "hunter2" not in str(findings)


async def test_silent_servers_do_not_delay_the_doctor(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_info, "ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        faulty = sound.changed(
            database_url=f"postgresql://x@127.0.0.1:{port}/x",
            redis_url=f"redis://127.0.0.1:{port}",
            amqp_url=f"amqp://127.0.0.1:{port}",
        )
        async with asyncio.timeout(30):
            findings = await run_checks(faulty)
    assert faults(findings) == {"PostgreSQL": "problem", "Redis": "warning", "RabbitMQ": "problem"}
    for name in ("PostgreSQL", "Redis", "RabbitMQ"):
        assert "no answer within" in named(findings, name).found


async def test_hanging_or_failing_check_hides_no_other(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "CHECK_SECONDS", 0.1)

    async def hangs(_: Settings) -> list[Finding]:
        await asyncio.Event().wait()
        return []

    async def breaks(_: Settings) -> list[Finding]:
        raise KeyError("a value that must not be shown")

    async def works(_: Settings) -> list[Finding]:
        return [ok("Works", "yes")]

    findings = await run_checks(sound, {"Hangs": hangs, "Breaks": breaks, "Works": works})
    assert [(finding.name, finding.verdict) for finding in findings] == [
        ("Hangs", "problem"),
        ("Breaks", "problem"),
        ("Works", "ok"),
    ]
    assert "must not be shown" not in str(findings)
