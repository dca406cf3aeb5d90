"""`catraca doctor` as a person and a program meet it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from catraca.platform.database.migrations import migrate
from catraca.settings import Settings
from tests.cli.doctor.findings import execute
from tests.conftest import SECRET
from tests.servers import on_one_stack


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
        "CATRACA_REDIS_URL": str(sound.servers.redis_url),
        "CATRACA_STATE_DIR": str(sound.process.state_dir),
        "CATRACA_PORT": str(sound.process.port),
        "CATRACA_SECRET": SECRET,
    }


# What there is to find is asked on both stacks, without a process for each question: see test_servers.py.
@on_one_stack
async def test_doctor_prints_findings_and_exits_by_the_verdict(environment: dict[str, str]) -> None:
    sick = await asyncio.to_thread(catraca, "doctor", **environment)
    assert sick.returncode == 1
    assert "problem   Schema: the database is empty\n          Run `catraca migrate`.\n" in sick.stdout
    assert sick.stderr == ""
    await migrate(environment["CATRACA_DATABASE_URL"])
    well = await asyncio.to_thread(catraca, "doctor", **environment)
    assert (well.returncode, well.stderr) == (0, "")
    assert "problem" not in well.stdout


@on_one_stack
async def test_doctor_prints_json_and_checks_invariants(environment: dict[str, str]) -> None:
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
    assert "- audit_log_is_append_only on audit_log exists but is not enforced" in plain.stdout
    assert "held      6. one effect per idempotency key: " in plain.stdout


@on_one_stack
async def test_invariants_without_a_database_are_unchecked(environment: dict[str, str]) -> None:
    del environment["CATRACA_DATABASE_URL"]
    told = json.loads(
        (await asyncio.to_thread(catraca, "doctor", "--json", "--invariants", **environment)).stdout
    )
    assert {rule["state"] for rule in told["invariants"]} == {"unchecked"}
    assert told["ok"] is False


# Which secrets are unfit is asked in test_settings.py; here, that whoever serves asks.
@pytest.mark.parametrize(
    ("command", "secret"),
    [
        (["up"], {}),
        (["serve", "all"], {"CATRACA_SECRET": "change-me-change-me-change-me-change-me"}),
        (["serve", "api", "--workers", "2"], {"CATRACA_SECRET": "x" * 31}),
    ],
)
def test_weak_secret_is_refused_in_production(
    command: list[str], secret: dict[str, str], tmp_path: Path
) -> None:
    settings = {
        "CATRACA_ENVIRONMENT": "production",
        "CATRACA_STATE_DIR": str(tmp_path),
        "CATRACA_DATABASE_URL": "postgresql://catraca@127.0.0.1:1/catraca",
    }
    refused = catraca(*command, **settings, **secret)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.startswith("catraca: CATRACA_SECRET is ")
    assert "openssl rand" in refused.stderr
    assert "change-me" not in refused.stderr
