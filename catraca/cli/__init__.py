"""`catraca`: the command line."""

import asyncio
import os
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Catraca: one claim, one winner.",
)


def main() -> None:
    app()


@app.command()
def serve(
    roles: Annotated[list[str], typer.Argument(help="Which roles this process runs: api, housekeeper, all.")],
) -> None:
    """Run roles against the servers given by CATRACA_DATABASE_URL and CATRACA_REDIS_URL."""
    import uvloop

    from catraca.platform.telemetry import configure_logging
    from catraca.settings import Settings

    settings = Settings()
    metrics = settings.state_dir / "metrics"
    metrics.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(metrics))
    configure_logging(settings.log_level)
    from catraca.roles import ROLES
    from catraca.roles.parts import open_parts
    from catraca.roles.runner import Life, run_roles

    async def run() -> None:
        names = list(ROLES) if "all" in roles else roles
        async with open_parts(settings) as parts:
            await run_roles([ROLES[name](parts) for name in names], Life())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@app.command()
def migrate() -> None:
    """Bring the database's schema to this version."""
    from catraca.platform.migrations import migrate as run
    from catraca.settings import Settings

    url = Settings().database_url
    assert url
    typer.echo(asyncio.run(run(url)))


@app.command()
def token(
    sub: Annotated[list[UUID], typer.Option(help="Whose token; may be given several times.")],
    role: Annotated[list[str], typer.Option(help="A role it carries; may be given several times.")],
    ttl: Annotated[int, typer.Option(help="Lifetime in seconds.", min=1)] = 3600,
) -> None:
    """Print one token a line."""
    from catraca.platform.auth import sign_token
    from catraca.settings import Settings

    secret = Settings().signing_secret()
    for subject in sub:
        typer.echo(sign_token(secret, subject=subject, roles=role, lifetime=timedelta(seconds=ttl)))
