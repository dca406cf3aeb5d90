"""A process refuses to start with a topology that loses events, before it opens ports or connections."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from uuid import uuid4

import aiormq
import pytest

import catraca.events
from catraca.events import EVENTS, TOPOLOGY
from catraca.platform.bus import TopologyRefused
from catraca.roles import ROLES
from catraca.roles.consumers import check_wiring
from tests.servers import Stack, free_port
from tests.support.wirings import FAULTS

ROOT = Path(__file__).parents[2]
REFUSALS = {
    "unbound key": "location.driver.whispered is published and no queue is bound to it: bind one, or do not"
    " publish it.",
    "unconsumed queue": "abandoned_queue has no consumer and would only fill: give role housekeeper its"
    " handlers.",
    "unknown role": "abandoned_queue is for role plumber, which does not exist: name one of api, relay,"
    " dispatcher, notifier, ingester, housekeeper.",
    "dead-letter cycle": "dead letters of dead_letter_queue come back to it by dlx: send them elsewhere, or"
    " nowhere.",
    "prefetch below batch": "audit_log_queue holds 99 messages and wants batches of 100, which could never"
    " fill: raise prefetch or lower batch.",
}


async def run(*command: str, **settings: str) -> tuple[int | None, str, list[str]]:
    """Run a command to its end; returns exit code, output, and the lines of its errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CATRACA_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        env={**kept, **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        printed, errors = await process.communicate()
    return process.returncode, printed.decode(), errors.decode().splitlines()


def test_every_fault_has_its_words() -> None:
    assert REFUSALS.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_wiring_that_loses_events_is_refused_with_the_remedy(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catraca.events, "TOPOLOGY", TOPOLOGY)  # both restored after the test
    monkeypatch.setattr(catraca.events, "EVENTS", EVENTS)
    FAULTS[fault]()
    with pytest.raises(TopologyRefused) as refused:
        check_wiring(catraca.events.TOPOLOGY, catraca.events.EVENTS)
    assert str(refused.value) == REFUSALS[fault]


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_wrong_wiring_stops_the_start_before_ports_open(workers: str, tmp_path: Path) -> None:
    fault = next(iter(FAULTS))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, printed, errors = await run(
            *("-m", "tests.support.wirings", fault, "serve", "all", "--workers", workers),
            CATRACA_STATE_DIR=str(tmp_path),
            # A process that opened the port or the database would report these instead.
            CATRACA_PORT=str(taken.getsockname()[1]),
            CATRACA_DATABASE_URL="postgresql://catraca@127.0.0.1:1/catraca",
        )
    assert (code, printed, errors) == (2, "", [f"catraca: {REFUSALS[fault]}"])


@pytest.mark.parametrize("stack", ["servers"], indirect=True)
async def test_up_gives_up_when_its_workers_refuse_and_shows_why(stack: Stack, tmp_path: Path) -> None:
    """The workers start as usual; `sitecustomize` plants the fault before any code of Catraca runs."""
    (tmp_path / "sitecustomize.py").write_text(
        "from tests.support.wirings import FAULTS\nFAULTS['unbound key']()\n"
    )
    code, printed, errors = await run(
        *("-m", "catraca", "up"),
        PYTHONPATH=f"{tmp_path}:{ROOT}",
        CATRACA_STATE_DIR=str(tmp_path / "state"),
        CATRACA_PORT=str(free_port()),
        CATRACA_DATABASE_URL=await stack.new_database(f"wiring_{uuid4().hex}"),
        CATRACA_REDIS_URL=stack.redis_url,
    )
    assert (code, printed) == (1, "")
    assert errors[-1] == "catraca: a worker refused to start; its last line says why"
    assert f"catraca: {REFUSALS['unbound key']}" in errors


def test_every_queue_has_a_known_role() -> None:
    check_wiring()
    assert {queue.role for queue in TOPOLOGY.queues} <= ROLES.keys()


@pytest.mark.xdist_group("rabbitmq")
@pytest.mark.parametrize("stack", ["servers"], indirect=True)
async def test_a_differing_broker_queue_is_refused_with_the_remedy(
    stack: Stack, amqp_url: str, tmp_path: Path
) -> None:
    connection = await aiormq.connect(amqp_url)
    channel = await connection.channel()
    await channel.queue_delete("audit_log_queue")  # another test may have declared it correctly
    await channel.queue_declare("audit_log_queue", durable=True)
    try:
        code, printed, errors = await run(
            *("-m", "catraca", "serve", "relay"),
            CATRACA_STATE_DIR=str(tmp_path),
            CATRACA_DATABASE_URL=stack.database_url,
            CATRACA_AMQP_URL=amqp_url,
        )
    finally:
        await channel.queue_delete("audit_log_queue")
        await connection.close()
    assert (code, printed) == (2, "")
    assert "already has queue audit_log_queue with other settings than ours" in errors[-1]
    assert "let it run empty and delete it" in errors[-1]
    assert "docs/raffle-migration.md" in errors[-1]
