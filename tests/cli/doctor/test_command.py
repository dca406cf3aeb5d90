"""`catraca doctor`: its output for people and for programs."""

import json
from pathlib import Path

import pytest

from catraca.platform.database.migrations import migrate
from catraca.settings import Settings
from tests.cli.doctor.findings import execute
from tests.cli.shell import catraca
from tests.conftest import SECRET
from tests.servers import on_one_stack


@pytest.fixture
def environment(sound: Settings, fresh_url: str) -> dict[str, str]:
    return {
        "CATRACA_DATABASE_URL": fresh_url,
        "CATRACA_REDIS_URL": str(sound.servers.redis_url),
        "CATRACA_STATE_DIR": str(sound.process.state_dir),
        "CATRACA_PORT": str(sound.process.port),
        "CATRACA_SECRET": SECRET,
    }


# The findings are tested on both stacks, without processes, in test_servers.py.
@on_one_stack
async def test_doctor_prints_findings_and_exits_by_the_verdict(
    environment: dict[str, str], tmp_path: Path
) -> None:
    faulty = await catraca("doctor", folder=tmp_path, **environment)
    assert faulty.returncode == 1
    assert "problem   Schema: the database is empty\n          Run `catraca migrate`.\n" in faulty.stdout
    assert faulty.stderr == ""
    await migrate(environment["CATRACA_DATABASE_URL"])
    fixed = await catraca("doctor", folder=tmp_path, **environment)
    assert (fixed.returncode, fixed.stderr) == (0, "")
    assert "problem" not in fixed.stdout


@on_one_stack
async def test_doctor_prints_json_and_checks_invariants(environment: dict[str, str], tmp_path: Path) -> None:
    url = environment["CATRACA_DATABASE_URL"]
    await migrate(url)
    words = ("doctor", "--json", "--invariants")
    sound = await catraca(*words, folder=tmp_path, **environment)
    output = json.loads(sound.stdout)
    assert (sound.returncode, output["ok"]) == (0, True)
    assert {finding["verdict"] for finding in output["checks"]} == {"ok"}
    assert {rule["state"] for rule in output["invariants"]} == {"held"}
    await execute(url, "ALTER TABLE audit_log DISABLE TRIGGER audit_log_is_append_only")
    broken = await catraca(*words, folder=tmp_path, **environment)
    output = json.loads(broken.stdout)
    assert (broken.returncode, output["ok"]) == (1, False)
    (rule,) = [rule for rule in output["invariants"] if rule["state"] != "held"]
    assert rule["name"] == "the audit log only grows"
    plain = await catraca("doctor", "--invariants", folder=tmp_path, **environment)
    assert "broken    the audit log only grows: " in plain.stdout
    assert "- audit_log_is_append_only on audit_log exists but is not enforced" in plain.stdout
    assert "held      6. one effect per idempotency key: " in plain.stdout


@on_one_stack
async def test_invariants_without_a_database_are_unchecked(
    environment: dict[str, str], tmp_path: Path
) -> None:
    del environment["CATRACA_DATABASE_URL"]
    output = json.loads(
        (await catraca("doctor", "--json", "--invariants", folder=tmp_path, **environment)).stdout
    )
    assert {rule["state"] for rule in output["invariants"]} == {"unchecked"}
    assert output["ok"] is False


# Which secrets are weak is tested in test_settings.py; here, that both commands check.
@pytest.mark.parametrize(
    ("command", "secret"),
    [
        (["up"], {}),
        (["serve", "all"], {"CATRACA_SECRET": "change-me-change-me-change-me-change-me"}),
        (["serve", "api", "--workers", "2"], {"CATRACA_SECRET": "x" * 31}),
    ],
)
async def test_weak_secret_is_refused_in_production(
    command: list[str], secret: dict[str, str], tmp_path: Path
) -> None:
    settings = {
        "CATRACA_ENVIRONMENT": "production",
        "CATRACA_STATE_DIR": str(tmp_path),
        "CATRACA_DATABASE_URL": "postgresql://catraca@127.0.0.1:1/catraca",
    }
    refused = await catraca(*command, folder=tmp_path, **settings, **secret)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.startswith("catraca: CATRACA_SECRET is ")
    assert "openssl rand" in refused.stderr
    assert "change-me" not in refused.stderr
