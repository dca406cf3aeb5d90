"""Commands that need no server: tokens, version, help, refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import jwt
import pytest

from catraca.platform.database.migrations import newest_revision
from catraca.settings import read_settings
from tests.cli.shell import catraca


def start(*arguments: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    environment = {"PATH": os.environ["PATH"], "CATRACA_STATE_DIR": str(folder / "state"), **settings}
    return subprocess.run(
        [sys.executable, "-m", "catraca", *arguments],
        env=environment | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def claims(token: str) -> dict[str, object]:
    return jwt.decode(token, options={"verify_signature": False})


async def test_token_prints_one_token_per_line(tmp_path: Path) -> None:
    secret = read_settings(state_dir=tmp_path / "state").signing_secret()
    subs = [str(uuid4()), str(uuid4())]
    arguments = [
        "token",
        "--sub",
        subs[0],
        "--sub",
        subs[1],
        "--role",
        "driver",
        "--role",
        "worker",
        "--ttl",
        "60",
    ]
    result = await catraca(*arguments, folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    tokens = result.stdout.split()
    assert [claims(token)["sub"] for token in tokens] == subs
    assert claims(tokens[0])["roles"] == ["driver", "worker"]
    for token in tokens:
        jwt.decode(token, secret, algorithms=["HS256"], audience="catraca", issuer="catraca")
    again = await catraca(*arguments, "--json", folder=tmp_path)
    assert [claims(token)["sub"] for token in json.loads(again.stdout)] == subs


async def test_token_follows_the_token_settings(tmp_path: Path) -> None:
    given = {"CATRACA_SECRET": "s" * 40, "CATRACA_JWT_ISSUER": "us", "CATRACA_JWT_AUDIENCE": "them"}
    result = await catraca("token", "--sub", str(uuid4()), "--role", "operator", folder=tmp_path, **given)
    jwt.decode(result.stdout.strip(), "s" * 40, algorithms=["HS256"], audience="them", issuer="us")


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (["token", "--sub", str(uuid4()), "--role", "king"], {}, ["king", "passenger"]),
        (
            ["token", "--sub", str(uuid4()), "--role", "driver"],
            {"CATRACA_JWKS_URL": "https://id.example/keys"},
            ["identity provider"],
        ),
        (["up"], {"CATRACA_PORT": "99999"}, ["CATRACA_PORT"]),
        (
            ["serve", "all"],
            {"CATRACA_DATABASE_URL": "postgresql://x@/x", "CATRACA_WORKERS": "many"},
            ["WORKERS"],
        ),
        (["serve", "all"], {}, ["CATRACA_DATABASE_URL", "catraca up"]),
        (["migrate"], {}, ["CATRACA_DATABASE_URL", "catraca up"]),
    ],
)
async def test_wrong_command_fails_in_one_line_with_the_remedy(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], words: list[str]
) -> None:
    result = await catraca(*arguments, folder=tmp_path, **settings)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert all(word in line for word in words)


def test_unavailable_server_fails_in_one_line(tmp_path: Path) -> None:
    url = "postgresql://catraca:hush@127.0.0.1:1/catraca"
    result = start("migrate", folder=tmp_path, CATRACA_DATABASE_URL=url)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "127.0.0.1:1" in line
    assert "hush" not in line


def test_version_prints_the_schema_too(tmp_path: Path) -> None:
    found = json.loads(start("version", "--json", folder=tmp_path).stdout)
    assert found["schema"] == newest_revision()
    assert found["version"] in start("version", folder=tmp_path).stdout


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = {"fastapi", "pydantic", "asyncpg", "alembic", "sqlalchemy", "prometheus_client", "redis", "jwt"}
    found = subprocess.run(
        [sys.executable, "-c", "import catraca.cli, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not heavy & set(found.stdout.split())
    assert "doctor" in start("--help", folder=tmp_path).stdout


def test_metrics_are_written_to_the_state_folder(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from catraca.roles.metrics import MetricsFolder;"
        "assert 'prometheus_client' not in sys.modules;"
        "MetricsFolder(Path('state')).join(); import prometheus_client;"
        "prometheus_client.Counter('told', 'Told.').inc()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert [path.name.split("_")[0] for path in (tmp_path / "state/metrics").iterdir()] == ["counter"]
