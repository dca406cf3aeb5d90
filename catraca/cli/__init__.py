"""The command line. One file per command; each command imports its modules when it runs."""

import gc

import typer

from catraca.cli.audit import audit
from catraca.cli.charges import app as charges
from catraca.cli.communities import app as communities
from catraca.cli.dead_letters import app as dead_letters
from catraca.cli.demo import demo
from catraca.cli.doctor import doctor
from catraca.cli.events import events
from catraca.cli.ledger import app as ledger
from catraca.cli.migrate import migrate
from catraca.cli.rides import app as rides
from catraca.cli.scheduling import app as scheduling
from catraca.cli.serve import serve
from catraca.cli.tokens import token
from catraca.cli.up import up
from catraca.cli.users import app as users
from catraca.cli.version import version

# Imports create many objects that stay: with the default threshold, garbage collection takes a seventh of
# the start.
OBJECTS_BETWEEN_COLLECTIONS = 10_000

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Dispatch and booking server.\n\nStart with `catraca up`; settings are `CATRACA_` variables.",
)
for command in (up, demo, serve, migrate, token, doctor, events, audit, version):
    app.command()(command)
app.add_typer(charges, name="charges")
app.add_typer(communities, name="communities")
app.add_typer(dead_letters, name="dead-letters")
app.add_typer(ledger, name="ledger")
app.add_typer(rides, name="rides")
app.add_typer(scheduling, name="scheduling")
app.add_typer(users, name="users")


def main() -> None:
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    app()
