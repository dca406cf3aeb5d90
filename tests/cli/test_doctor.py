"""The doctor: each thing made amiss on real servers where it can be, and named with its remedy."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import redis.asyncio

from catraca.platform import clock, server_facts
from catraca.platform.migrations import migrate
from catraca.platform.server_facts import (
    ClockSkew,
    PostgresFacts,
    RabbitFacts,
    RedisFacts,
    Unreachable,
    ask_postgres,
    ask_rabbitmq,
    ask_redis,
)
from catraca.roles import doctor
from catraca.roles.doctor import look_over
from catraca.roles.doctor_checks.findings import Finding, judge_clock, ok, version_of
from catraca.roles.doctor_checks.machine import judge_disk
from catraca.roles.doctor_checks.postgres import judge_postgres
from catraca.roles.doctor_checks.rabbitmq import judge_rabbitmq
from catraca.roles.doctor_checks.redis import judge_redis
from catraca.settings import Settings
from tests.conftest import SECRET, free_port
from tests.platform.keys import Key, provider
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


def amiss(findings: list[Finding]) -> dict[str, str]:
    """What is not ok, by name; each of it comes with a remedy."""
    assert all(finding.remedy for finding in findings if finding.verdict != "ok")
    return {finding.name: finding.verdict for finding in findings if finding.verdict != "ok"}


def named(findings: list[Finding], name: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.name == name]
    return finding


@pytest.fixture
def sound(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with which all is well, to be spoilt."""
    return settings.model_copy(update={"port": free_port(), "state_dir": tmp_path})


@pytest.fixture
async def fresh_url(stack: Stack) -> str:
    """An empty database that a test may spoil."""
    return await stack.new_database(f"doctor-{uuid4().hex[:8]}")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_sound_catraca_has_no_problem(sound: Settings) -> None:
    assert amiss(await look_over(sound)) == {}


# PostgreSQL


async def test_a_database_without_migrations_or_from_the_future_is_named(
    sound: Settings, fresh_url: str
) -> None:
    spoilt = sound.model_copy(update={"database_url": fresh_url})
    schema = named(await look_over(spoilt), "Schema")
    assert (schema.verdict, schema.remedy) == ("problem", "Run `catraca migrate`.")
    await migrate(fresh_url)
    assert amiss(await look_over(spoilt)) == {}
    await execute(fresh_url, "UPDATE alembic_version SET version_num = '9999'")
    schema = named(await look_over(spoilt), "Schema")
    assert schema.verdict == "problem"
    assert "9999, which this version does not know" in schema.found


async def test_what_a_database_is_set_to_counts_not_only_its_server(sound: Settings, fresh_url: str) -> None:
    await migrate(fresh_url)
    name = fresh_url.partition("/doctor-")[2].partition("?")[0]
    await execute(
        fresh_url,
        f'ALTER DATABASE "doctor-{name}" SET synchronous_commit = off',
        f'ALTER DATABASE "doctor-{name}" SET default_transaction_read_only = on',
        f'ALTER DATABASE "doctor-{name}" CONNECTION LIMIT 10',
    )
    spoilt = sound.model_copy(update={"database_url": fresh_url})
    findings = await look_over(spoilt)
    assert amiss(findings) == {"Durability": "problem", "Writing": "problem", "Connections": "problem"}
    assert "synchronous_commit is off" in named(findings, "Durability").found
    assert named(findings, "Connections").found.startswith("10 allowed, up to 11 needed")


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
        (replace(POSTGRES, connections_allowed=40), "Connections", "4 workers with 10 each"),
        (replace(POSTGRES, revision=None), "Schema", "empty"),
        (replace(POSTGRES, revision="0000"), "Schema", "does not know"),
    ],
)
def test_what_cannot_be_spoilt_here_is_judged_by_its_facts(
    facts: PostgresFacts, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catraca.roles.doctor_checks.postgres.newest_revision", lambda: "0001")
    settings = Settings(workers=4, database_connections=10)
    assert amiss(judge_postgres(POSTGRES, settings)) == {}
    findings = judge_postgres(facts, settings)
    assert amiss(findings) == {name: "problem"}
    assert words in named(findings, name).found


async def test_a_database_that_cannot_be_reached_hides_nothing_else(sound: Settings, tmp_path: Path) -> None:
    for url in (
        f"postgresql://catraca:hunter2@127.0.0.1:{free_port()}/catraca",
        f"postgresql://catraca@/catraca?host={tmp_path}",
        "nonsense",
        None,
    ):
        findings = await look_over(sound.model_copy(update={"database_url": url}))
        assert amiss(findings) == {"PostgreSQL": "problem"}
        assert named(findings, "Redis").verdict == "ok"
        assert "hunter2" not in str(findings)


async def test_a_wrong_name_is_told_in_the_servers_words(sound: Settings, stack: Stack) -> None:
    url = stack.database_url.replace("/catraca?", "/nowhere?")
    finding = named(await look_over(sound.model_copy(update={"database_url": url})), "PostgreSQL")
    assert 'database "nowhere" does not exist' in finding.found


# Redis


async def test_redis_that_evicts_or_is_full_is_a_warning(sound: Settings, stack: Stack) -> None:
    client = redis.asyncio.from_url(stack.redis_url)
    before = {**await client.config_get("maxmemory"), **await client.config_get("maxmemory-policy")}
    used = (await client.info("memory"))["used_memory"]
    try:
        await client.config_set("maxmemory", int(used * 1.1))
        await client.config_set("maxmemory-policy", "allkeys-lru")
        findings = await look_over(sound)
    finally:
        for name, value in before.items():
            await client.config_set(name, value)
        await client.aclose()
    assert amiss(findings) == {"Eviction": "warning", "Memory of Redis": "warning"}
    assert "allkeys-lru" in named(findings, "Eviction").found


async def test_without_redis_there_is_only_a_warning(sound: Settings, tmp_path: Path) -> None:
    for url in (
        f"unix://{tmp_path}/none.sock",
        f"redis://:hunter2@127.0.0.1:{free_port()}/0",
        None,
        "nonsense",
    ):
        findings = await look_over(sound.model_copy(update={"redis_url": url}))
        assert amiss(findings) == {"Redis": "warning"}
        assert "hunter2" not in str(findings)


def test_an_old_redis_is_a_problem_and_a_replica_a_warning() -> None:
    assert amiss(judge_redis(REDIS)) == {}
    assert amiss(judge_redis(replace(REDIS, version="6.0.16"))) == {"Redis": "problem"}
    assert amiss(judge_redis(replace(REDIS, is_replica=True))) == {"Redis": "warning"}
    assert amiss(judge_redis(replace(REDIS, used_bytes=81))) == {"Memory of Redis": "warning"}
    assert amiss(judge_redis(replace(REDIS, used_bytes=81, limit_bytes=0))) == {}


def test_versions_compare_as_numbers() -> None:
    assert version_of("6.2.12-rc1") == (6, 2, 12)
    assert version_of("3.9.29") < (3, 10) <= version_of("3.10.0")
    assert version_of("10.0") > (6, 2)
    assert version_of("?") == ()


# RabbitMQ


async def test_rabbitmq_is_asked_where_one_is_given(amqp_url: str) -> None:
    facts = await ask_rabbitmq(amqp_url)
    assert facts.product == "RabbitMQ"
    assert judge_rabbitmq(facts).verdict == "ok"
    with pytest.raises(Unreachable):
        await ask_rabbitmq(amqp_url.replace("guest:guest", "guest:hunter2"))


def test_an_old_rabbitmq_is_a_problem() -> None:
    assert judge_rabbitmq(RabbitFacts(product="RabbitMQ", version="3.9.13")).verdict == "problem"
    assert judge_rabbitmq(RabbitFacts(product="RabbitMQ", version="3.10.0")).verdict == "ok"
    assert judge_rabbitmq(RabbitFacts(product="Another", version="4.0")).verdict == "warning"


async def test_a_rabbitmq_that_was_given_and_is_away_is_a_problem(sound: Settings) -> None:
    url = f"amqp://guest:hunter2@127.0.0.1:{free_port()}/"
    findings = await look_over(sound.model_copy(update={"amqp_url": url}))
    assert amiss(findings) == {"RabbitMQ": "problem"}
    assert "hunter2" not in str(findings)


# Servers that take the connection and say nothing


async def test_silent_servers_hold_up_neither_each_other_nor_the_doctor(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_facts, "ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        spoilt = sound.model_copy(
            update={
                "database_url": f"postgresql://x@127.0.0.1:{port}/x",
                "redis_url": f"redis://127.0.0.1:{port}",
                "amqp_url": f"amqp://127.0.0.1:{port}",
            }
        )
        async with asyncio.timeout(30):
            findings = await look_over(spoilt)
    assert amiss(findings) == {"PostgreSQL": "problem", "Redis": "warning", "RabbitMQ": "problem"}
    for name in ("PostgreSQL", "Redis", "RabbitMQ"):
        assert "no answer within" in named(findings, name).found


async def test_a_check_that_hangs_or_breaks_hides_no_other(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.1)

    async def hangs(_: Settings) -> list[Finding]:
        await asyncio.Event().wait()
        return []

    async def breaks(_: Settings) -> list[Finding]:
        raise KeyError("a value that must not be shown")

    async def works(_: Settings) -> list[Finding]:
        return [ok("Works", "yes")]

    findings = await look_over(sound, {"Hangs": hangs, "Breaks": breaks, "Works": works})
    assert [(finding.name, finding.verdict) for finding in findings] == [
        ("Hangs", "problem"),
        ("Breaks", "problem"),
        ("Works", "ok"),
    ]
    assert "must not be shown" not in str(findings)


# Clocks


@pytest.mark.parametrize(
    ("ahead", "uncertain", "verdict"),
    [
        (0.9, 0, "ok"),
        (1.2, 0, "warning"),
        (-1.2, 0, "warning"),
        (5.1, 0, "problem"),
        (-9, 0, "problem"),
        (1.2, 0.5, "ok"),
        (6, 2, "warning"),
    ],
)
def test_a_clock_is_judged_beyond_the_doubt_of_its_measurement(
    ahead: float, uncertain: float, verdict: str
) -> None:
    assert judge_clock("Clock", ClockSkew(ahead, uncertain)).verdict == verdict


async def test_clocks_that_differ_are_measured_on_real_servers(
    sound: Settings, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clock.now
    for seconds, verdict in ((-30, "problem"), (2, "warning")):
        monkeypatch.setattr(clock, "now", lambda seconds=seconds: real() + timedelta(seconds=seconds))
        findings = await look_over(sound)
        assert amiss(findings) == {"Clock of PostgreSQL": verdict, "Clock of Redis": verdict}
        way = "behind" if seconds > 0 else "ahead of"
        assert f"{abs(seconds)}.0 s {way} this machine" in named(findings, "Clock of PostgreSQL").found
    facts = (await ask_postgres(stack.database_url)).skew, (await ask_redis(stack.redis_url)).skew
    assert all(skew.surely_seconds > 1 for skew in facts)


# The machine and its settings


async def test_a_port_on_which_catraca_answers_is_fine(sound: Settings, api_url: str) -> None:
    ours = int(api_url.rpartition(":")[2])
    finding = named(await look_over(sound.model_copy(update={"port": ours})), f"Port {ours}")
    assert (finding.verdict, finding.found) == ("ok", "Catraca answers there")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nx-request-id: 1\r\ncontent-length: 5\r\n\r\nhello",
        b'HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{"status":"alive"}',
        b"\x00\xff SSH-2.0\r\n",
        b"",
    ],
)
async def test_a_port_taken_by_a_stranger_is_a_problem(sound: Settings, answer: bytes) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(stranger, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        finding = named(await look_over(sound.model_copy(update={"port": port})), f"Port {port}")
    assert (finding.verdict, finding.remedy) == (
        "problem",
        "Stop it, or choose another with CATRACA_PORT.",
    )


async def test_an_address_that_is_not_ours_cannot_be_listened_on(sound: Settings) -> None:
    findings = await look_over(sound.model_copy(update={"host": "192.0.2.1"}))
    assert named(findings, f"Port {sound.port}").verdict == "problem"


@pytest.mark.parametrize("environment", ["production", "development"])
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"secret": "short"}, "Secret"),
        ({"secret": "change-me-change-me-change-me-change-me"}, "Secret"),
        ({"secret": "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbcccc"}, "Secret"),
        ({"trusted_proxies": [ip_network("0.0.0.0/0")]}, "Trusted proxies"),
        ({"trusted_proxies": [ip_network("10.0.0.0/8"), ip_network("::/0")]}, "Trusted proxies"),
    ],
)
async def test_what_is_fit_for_a_try_out_is_a_problem_in_production(
    sound: Settings, changes: dict[str, Any], name: str, environment: str
) -> None:
    findings = await look_over(sound.model_copy(update={"environment": environment, **changes}))
    assert amiss(findings) == {name: "problem" if environment == "production" else "warning"}


async def test_a_variable_that_is_no_setting_is_told(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATRACA_PROT", "9000")
    findings = await look_over(sound)
    assert amiss(findings) == {"Settings": "warning"}
    assert named(findings, "Settings").found == "no such setting: CATRACA_PROT"


async def test_a_secret_file_open_to_others_is_a_problem(sound: Settings) -> None:
    own = sound.model_copy(update={"secret": None})
    own.signing_secret()
    assert amiss(await look_over(own)) == {}
    (own.state_dir / "secret").chmod(0o640)
    finding = named(await look_over(own), "Secret file")
    assert finding.verdict == "problem"
    assert finding.remedy == f"chmod 600 {own.state_dir}/secret"


async def test_a_state_folder_is_made_when_it_can_be(sound: Settings, tmp_path: Path) -> None:
    findings = await look_over(sound.model_copy(update={"state_dir": tmp_path / "a" / "b"}))
    assert named(findings, "State folder").found == f"{tmp_path}/a/b will be made"
    assert not (tmp_path / "a").exists(), "the doctor changes nothing"
    (tmp_path / "file").touch()
    for unusable in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):
        findings = await look_over(sound.model_copy(update={"state_dir": unusable}))
        assert named(findings, "State folder").verdict == "problem"


def test_a_disk_that_fills_up_is_told_in_time() -> None:
    assert judge_disk(10 * 1024**3, Path("/")).verdict == "ok"
    assert judge_disk(500 * 1024**2, Path("/")).verdict == "warning"
    assert judge_disk(50 * 1024**2, Path("/")).verdict == "problem"


async def test_an_identity_provider_is_asked_for_its_keys(sound: Settings) -> None:
    with provider(Key("one", "ES256")) as idp:
        given = sound.model_copy(update={"jwks_url": idp.url})
        assert named(await look_over(given), "Identity provider").found == "1 keys"
        in_production = given.model_copy(update={"environment": "production"})
        assert amiss(await look_over(in_production)) == {"Identity provider": "problem"}
        idp.keys = []
        assert amiss(await look_over(given)) == {"Identity provider": "problem"}
    assert amiss(await look_over(given)) == {"Identity provider": "problem"}


# The command


def catraca(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "catraca", *words],
        env={**kept, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def environment(sound: Settings, fresh_url: str) -> dict[str, str]:
    return {
        "CATRACA_DATABASE_URL": fresh_url,
        "CATRACA_REDIS_URL": str(sound.redis_url),
        "CATRACA_STATE_DIR": str(sound.state_dir),
        "CATRACA_PORT": str(sound.port),
        "CATRACA_SECRET": SECRET,
    }


async def test_the_command_prints_plain_words_and_ends_by_the_verdict(environment: dict[str, str]) -> None:
    sick = await asyncio.to_thread(catraca, "doctor", **environment)
    assert sick.returncode == 1
    assert "problem   Schema: the database is empty\n          Run `catraca migrate`.\n" in sick.stdout
    assert sick.stderr == ""
    await migrate(environment["CATRACA_DATABASE_URL"])
    well = await asyncio.to_thread(catraca, "doctor", **environment)
    assert (well.returncode, well.stderr) == (0, "")
    assert "problem" not in well.stdout


async def test_the_command_speaks_json_and_checks_the_rules(environment: dict[str, str]) -> None:
    url = environment["CATRACA_DATABASE_URL"]
    await migrate(url)
    words = ("doctor", "--json", "--invariants")
    sound = await asyncio.to_thread(catraca, *words, **environment)
    told = json.loads(sound.stdout)
    assert (sound.returncode, told["ok"]) == (0, True)
    assert {finding["verdict"] for finding in told["checks"]} == {"ok"}
    assert {rule["state"] for rule in told["invariants"]} == {"held"}
    await execute(url, "ALTER TABLE audit_log DISABLE TRIGGER audit_log_is_append_only")
    broken = await asyncio.to_thread(catraca, *words, **environment)
    told = json.loads(broken.stdout)
    assert (broken.returncode, told["ok"]) == (1, False)
    (rule,) = [rule for rule in told["invariants"] if rule["state"] != "held"]
    assert rule["name"] == "the audit log only grows"
    plain = await asyncio.to_thread(catraca, "doctor", "--invariants", **environment)
    assert "broken    the audit log only grows: " in plain.stdout
    assert "- audit_log_is_append_only on audit_log is there but not in force" in plain.stdout
    assert "held      6. one effect per idempotency key: " in plain.stdout


async def test_rules_without_a_database_are_not_taken_for_held(environment: dict[str, str]) -> None:
    del environment["CATRACA_DATABASE_URL"]
    told = json.loads(
        (await asyncio.to_thread(catraca, "doctor", "--json", "--invariants", **environment)).stdout
    )
    assert {rule["state"] for rule in told["invariants"]} == {"unchecked"}
    assert told["ok"] is False


@pytest.mark.parametrize("command", [["up"], ["serve", "all"], ["serve", "api", "--workers", "2"]])
def test_nothing_serves_in_production_with_a_secret_from_a_try_out(
    command: list[str], tmp_path: Path
) -> None:
    settings = {
        "CATRACA_ENVIRONMENT": "production",
        "CATRACA_STATE_DIR": str(tmp_path),
        "CATRACA_DATABASE_URL": "postgresql://catraca@127.0.0.1:1/catraca",
    }
    for secret in (
        {},
        {"CATRACA_SECRET": "change-me-change-me-change-me-change-me"},
        {"CATRACA_SECRET": "x" * 31},
    ):
        refused = catraca(*command, **settings, **secret)
        assert refused.returncode == 2, refused.stderr
        assert refused.stderr.startswith("catraca: CATRACA_SECRET is ")
        assert "openssl rand" in refused.stderr
        assert "change-me" not in refused.stderr
