"""The doctor on clocks, ports, secrets and folders."""

import asyncio
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from catraca.platform import clock
from catraca.platform.server_info import (
    ClockSkew,
    ask_postgres,
    ask_redis,
)
from catraca.roles.doctor.checkup import run_checks
from catraca.roles.doctor.findings import judge_clock
from catraca.roles.doctor.machine import judge_disk
from catraca.settings import Settings
from tests.cli.doctor.findings import faults, named
from tests.platform.identity_provider import Key, provider
from tests.servers import Stack


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
def test_clock_skew_counts_beyond_its_uncertainty(ahead: float, uncertain: float, verdict: str) -> None:
    assert judge_clock("Clock", ClockSkew(ahead, uncertain)).verdict == verdict


async def test_clock_skew_is_measured_on_real_servers(
    sound: Settings, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clock.now
    for seconds, verdict in ((-30, "problem"), (2, "warning")):
        monkeypatch.setattr(clock, "now", lambda seconds=seconds: real() + timedelta(seconds=seconds))
        findings = await run_checks(sound)
        assert faults(findings) == {"Clock of PostgreSQL": verdict, "Clock of Redis": verdict}
        way = "behind" if seconds > 0 else "ahead of"
        assert f"{abs(seconds)}.0 s {way} this machine" in named(findings, "Clock of PostgreSQL").found
    facts = (await ask_postgres(stack.database_url)).skew, (await ask_redis(stack.redis_url)).skew
    assert all(skew.surely_seconds > 1 for skew in facts)


async def test_port_where_catraca_answers_is_ok(sound: Settings, api_url: str) -> None:
    ours = int(api_url.rpartition(":")[2])
    finding = named(await run_checks(sound.changed(port=ours)), f"Port {ours}")
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
async def test_port_taken_by_another_program_is_a_problem(sound: Settings, answer: bytes) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(stranger, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        finding = named(await run_checks(sound.changed(port=port)), f"Port {port}")
    assert (finding.verdict, finding.remedy) == (
        "problem",
        "Stop it, or choose another with CATRACA_PORT.",
    )


async def test_foreign_address_is_a_problem(sound: Settings) -> None:
    findings = await run_checks(sound.changed(host="192.0.2.1"))
    assert named(findings, f"Port {sound.process.port}").verdict == "problem"


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
async def test_unsafe_settings_are_a_problem_in_production(
    sound: Settings, changes: dict[str, Any], name: str, environment: str
) -> None:
    findings = await run_checks(sound.changed(environment=environment, **changes))
    assert faults(findings) == {name: "problem" if environment == "production" else "warning"}


async def test_unknown_variable_is_a_warning(sound: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATRACA_PROT", "9000")
    findings = await run_checks(sound)
    assert faults(findings) == {"Settings": "warning"}
    assert named(findings, "Settings").found == "unknown: CATRACA_PROT"


async def test_readable_secret_file_is_a_problem(sound: Settings) -> None:
    own = sound.changed(secret=None)
    own.signing_secret()
    assert faults(await run_checks(own)) == {}
    (own.process.state_dir / "secret").chmod(0o640)
    finding = named(await run_checks(own), "Secret file")
    assert finding.verdict == "problem"
    assert finding.remedy == f"chmod 600 {own.process.state_dir}/secret"


async def test_missing_state_folder_can_be_made(sound: Settings, tmp_path: Path) -> None:
    findings = await run_checks(sound.changed(state_dir=tmp_path / "a" / "b"))
    assert named(findings, "State folder").found == f"{tmp_path}/a/b will be made"
    assert not (tmp_path / "a").exists(), "the doctor changes nothing"
    (tmp_path / "file").touch()
    for unusable in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):
        findings = await run_checks(sound.changed(state_dir=unusable))
        assert named(findings, "State folder").verdict == "problem"


def test_nearly_full_disk_is_reported() -> None:
    assert judge_disk(10 * 1024**3, Path("/")).verdict == "ok"
    assert judge_disk(500 * 1024**2, Path("/")).verdict == "warning"
    assert judge_disk(50 * 1024**2, Path("/")).verdict == "problem"


async def test_keys_of_the_identity_provider_are_checked(sound: Settings) -> None:
    with provider(Key("one", "ES256")) as idp:
        given = sound.changed(jwks_url=idp.url)
        assert named(await run_checks(given), "Identity provider").found == "1 keys"
        in_production = given.changed(environment="production")
        assert faults(await run_checks(in_production)) == {"Identity provider": "problem"}
        idp.keys = []
        assert faults(await run_checks(given)) == {"Identity provider": "problem"}
    assert faults(await run_checks(given)) == {"Identity provider": "problem"}
