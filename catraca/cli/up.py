"""`catraca up`: everything on this machine with one command."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from catraca.cli.demo import ensure_demo_fits
from catraca.cli.failures import expected_failures
from catraca.cli.serve import exit_quietly_on_sigterm

if TYPE_CHECKING:
    from catraca.roles.demo import DemoCity


def up(
    workers: Annotated[
        int | None, typer.Option(help="Number of processes; by default CATRACA_WORKERS.", min=1, max=64)
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Run `catraca demo` too: a simulated city.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object when ready, for programs.")
    ] = False,
) -> None:
    """Run Catraca on this machine with all its servers; Ctrl-C stops everything.

    PostgreSQL and Redis run embedded, with their data in the state folder (CATRACA_STATE_DIR, `var`), unless
    CATRACA_DATABASE_URL or CATRACA_REDIS_URL is set.

    Example: `CATRACA_PORT=8001 CATRACA_STATE_DIR=/srv/catraca catraca up`
    """
    began = time.monotonic()
    exit_quietly_on_sigterm()
    with expected_failures():
        import asyncio

        from catraca.cli.progress import Progress
        from catraca.cli.welcome import Welcome
        from catraca.roles.instance import Instance
        from catraca.settings import Settings, read_settings

        settings = read_settings()
        settings.ensure_fit()
        if demo:
            ensure_demo_fits(settings)
        progress = Progress()

        def ready(found: Settings, city: "DemoCity | None") -> None:
            progress.done()
            welcome = Welcome.to(found, city, seconds=time.monotonic() - began)
            welcome.print_json() if as_json else welcome.print()

        instance = Instance(
            settings=settings,
            workers=workers or settings.process.workers,
            say=progress.say,
            ready=ready,
            demo=demo,
        )
        with progress:
            asyncio.run(instance.run())
