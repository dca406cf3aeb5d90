"""`catraca serve`: runs roles, in this process or in several."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from catraca.cli.database import find_settings, need_database
from catraca.cli.failures import REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from socket import socket

    from catraca.roles.metrics import MetricsFolder
    from catraca.settings import Settings


def serve(
    roles: Annotated[
        list[str], typer.Argument(help="api, relay, dispatcher, notifier, ingester, housekeeper, or all.")
    ],
    workers: Annotated[
        int | None, typer.Option(help="Number of processes; by default CATRACA_WORKERS.", min=1, max=64)
    ] = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="An inherited listening socket.")] = None,
) -> None:
    """Run roles on the servers of CATRACA_DATABASE_URL and CATRACA_REDIS_URL.

    SIGTERM drains: not ready, no new work, open work is finished, exit code 0.

    Examples: `catraca serve all`, `catraca serve api --workers 4`
    """
    exit_quietly_on_sigterm()
    with expected_failures():
        from catraca.roles.metrics import MetricsFolder

        # Before the settings are read, because that may import `prometheus_client`.
        metrics = MetricsFolder(Path(os.environ.get("CATRACA_STATE_DIR") or "var"))
        metrics.join()
        names = chosen_roles(roles)
        settings = find_settings()
        settings.ensure_fit()
        need_database(settings)
        _check_wiring()
        count = workers or settings.process.workers
        if count > 1:
            _serve_in_workers(settings, names, count, metrics)
        else:
            _serve_here(settings, names, metrics, fd)


def chosen_roles(roles: Sequence[str]) -> list[str]:
    """The chosen roles; `all` means all of them. An unknown name fails."""
    from catraca.roles import ROLES

    if unknown := sorted(set(roles) - {*ROLES, "all"}):
        fail(f"no such role: {', '.join(unknown)}; there are {', '.join(ROLES)} and all", REFUSED)
    return list(ROLES) if "all" in roles else list(dict.fromkeys(roles))


def _check_wiring() -> None:
    """Check queues and handlers before any port or connection is opened."""
    from catraca.roles.consumers import check_wiring

    check_wiring()


def exit_quietly_on_sigterm() -> None:
    """Exit with 0 on SIGTERM until the event loop handles signals: there is no work to drain yet."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        # Not by an exception: it could be raised inside an import, which may replace it.
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)


def _serve_here(settings: "Settings", names: Sequence[str], metrics: "MetricsFolder", fd: int | None) -> None:
    import asyncio
    import socket

    import uvloop

    from catraca.platform.telemetry import configure_logging

    configure_logging(settings.process.log_level)

    async def run() -> None:
        from catraca.roles.listener import claim_port

        listener: socket.socket | None = None
        if fd is not None:
            listener = socket.socket(fileno=fd)
        elif "api" in names:
            listener = await claim_port(settings.process.host, settings.process.port, metrics, _log)
        await _run_roles(settings, names, listener)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def _run_roles(settings: "Settings", names: Sequence[str], listener: "socket | None") -> None:
    from catraca.platform.bus import BusAway
    from catraca.platform.database.migrations import DatabaseUnreachable, check_schema
    from catraca.roles import ROLES
    from catraca.roles.agents.schema_watch import SchemaWatch
    from catraca.roles.parts import open_parts
    from catraca.roles.runner import DRAIN_SECONDS, Life, Role, run_roles, settle_memory

    life = Life()
    life.handle_signals()
    assert settings.servers.database_url is not None
    late: list[Role] = []
    try:
        await check_schema(settings.servers.database_url)
    except DatabaseUnreachable:
        # Start without the database; its schema is checked when it comes back.
        late = [SchemaWatch(settings.servers.database_url)]
    async with open_parts(settings, listener=listener) as parts:
        with suppress(BusAway):  # start without it too; but queues with other arguments are refused
            await parts.bus.declare()
        roles = [ROLES[name](parts) for name in names]
        settle_memory()
        await run_roles([*roles, *late], life, drain_seconds=DRAIN_SECONDS + settings.process.drain_delay)


def _serve_in_workers(
    settings: "Settings", names: Sequence[str], count: int, metrics: "MetricsFolder"
) -> None:
    import asyncio

    from catraca.platform.telemetry import configure_logging
    from catraca.roles.listener import claim_port
    from catraca.roles.runner import Life, first_of
    from catraca.roles.supervisor import DRAIN_SECONDS, Supervisor

    configure_logging(settings.process.log_level)

    async def run() -> None:
        listener = (
            await claim_port(settings.process.host, settings.process.port, metrics, _log)
            if "api" in names
            else None
        )
        life = Life()
        life.handle_signals()
        supervisor = Supervisor(
            names,
            count=count,
            metrics=metrics,
            say=_log,
            environment=_worker_environment(settings),
            listener=listener,
        )
        try:
            await first_of(supervisor.keep(), life.stopping.wait())
        finally:
            await supervisor.drain(life.hurrying, seconds=DRAIN_SECONDS + settings.process.drain_delay)

    asyncio.run(run())


def _log(what: str) -> None:
    import structlog

    structlog.get_logger().warning("supervisor", what=what)


def _worker_environment(settings: "Settings") -> dict[str, str]:
    """Addresses that this process found, for its workers."""
    found = {
        "CATRACA_DATABASE_URL": settings.servers.database_url,
        "CATRACA_REDIS_URL": settings.servers.redis_url,
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "CATRACA_STATE_DIR": str(settings.process.state_dir.resolve())}
