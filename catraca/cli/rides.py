"""`catraca rides explain`: why a ride got its driver, or none."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.failures import expected_failures, fail

if TYPE_CHECKING:
    from catraca.domains.matching import Explanation

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Explain a ride.")


@app.callback()
def rides() -> None:
    """Explain a ride."""


@app.command()
def explain(
    ride: Annotated[UUID, typer.Argument(metavar="RIDE_ID", help="The ride's id.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs, as the API answers it.")
    ] = False,
) -> None:
    """Print the history of a ride: the drivers each search saw and asked, their answers, and the end.

    Changes nothing. Drivers are shown by the first eight characters of their ids; times are local.

    Example: `catraca rides explain 0198a8b2-3c00-7000-8000-000000000001`
    """
    explained = _explained(ride)
    from catraca.domains.matching.explain.schemas import TimelineOut

    timeline = TimelineOut.of(explained)
    if as_json:
        typer.echo(timeline.model_dump_json(indent=2))
    else:
        from catraca.cli.ride_story import print_story

        print_story(timeline)


def _explained(ride_id: UUID) -> "Explanation":
    import asyncio

    with expected_failures():
        from catraca.domains.matching import explain_ride
        from catraca.domains.rides import RideId
        from catraca.platform.errors import Refusal
        from catraca.platform.telemetry import configure_logging

        configure_logging("error")
        url = need_database(find_settings())
        try:
            return asyncio.run(on_database(url, lambda db: explain_ride(db, RideId(ride_id))))
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            fail(f"there is no ride {ride_id}")
