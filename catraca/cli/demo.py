"""`catraca demo`: a simulated city in a running Catraca."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn
from uuid import UUID

import typer

from catraca.cli.failures import REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from catraca.client.demo import City
    from catraca.settings import Settings

TOKEN_SECONDS = 3600
ASK_SECONDS = 5.0
OPEN_FILES = 8192


def demo(
    url: Annotated[
        str | None, typer.Option(help="Address of Catraca; by default from CATRACA_HOST and CATRACA_PORT.")
    ] = None,
    drivers: Annotated[int, typer.Option(help="Number of drivers.", min=1, max=500)] = 20,
    rides_per_minute: Annotated[
        float, typer.Option(help="Average number of ride requests a minute.", min=0.1, max=600)
    ] = 12,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", min=0)] = 1,
    seconds: Annotated[
        float | None, typer.Option("--for", help="Duration in seconds; by default until Ctrl-C.", min=1)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, for programs.")
    ] = False,
) -> None:
    """Simulate drivers and passengers in a running Catraca, and show the counts.

    They use the API and the sockets, with tokens signed by this state folder's secret. At the end their rides
    are finished or canceled and the drivers go offline. The data stay: not for production.

    Example: `catraca demo --drivers 50 --rides-per-minute 30 --for 120`
    """
    with expected_failures():
        import asyncio

        from catraca.cli.demo_screen import Screen
        from catraca.client.demo import City
        from catraca.roles.demo import DRIVERS, PASSENGERS
        from catraca.settings import read_settings

        settings = read_settings()
        ensure_demo_fits(settings)
        address = (url or _own_address(settings)).rstrip("/")
        if settings.process.environment is None:
            _ensure_demo_city(address)
        sign = _signer(settings)
        _check(address, sign(DRIVERS[0].id, "driver"))

        _allow_many_connections()

        async def run() -> None:
            city = City(
                address,
                sign,
                drivers=drivers,
                rides_per_minute=rides_per_minute,
                seed=seed,
                known_drivers=[driver.id for driver in DRIVERS],
                known_passengers=[passenger.id for passenger in PASSENGERS],
            )
            _stop_on_signals(city)
            await Screen(city.tally, drivers=drivers, url=address, as_json=as_json).show(city.run(seconds))

        asyncio.run(run())


def ensure_demo_fits(settings: "Settings") -> None:
    """Fail where demo data are refused, or an identity provider signs the tokens: the demo cannot."""
    if fault := settings.demo_fault():
        _refuse(fault)
    if settings.access.jwks_url:
        fail("the demo cannot sign tokens of your identity provider (CATRACA_JWKS_URL)", REFUSED)


def _ensure_demo_city(url: str) -> None:
    """Fail unless the embedded database has the demo city: the server may have other settings than we do."""
    from catraca.cli.database import run_on_database
    from catraca.client.http import is_local
    from catraca.domains import people
    from catraca.roles.demo import OPERATOR

    if not is_local(url):
        _refuse(f"{url} may be another machine")
    if not run_on_database(lambda db: people.get_users(db, [OPERATOR.id])):
        _refuse("the demo city is not in the database")


def _refuse(why: str) -> NoReturn:
    from catraca.settings import DEMO_REMEDY

    fail(f"the demo does not run here, because {why}: {DEMO_REMEDY}", REFUSED)


def _own_address(settings: "Settings") -> str:
    from catraca.roles.listener import callable_address

    return f"http://{callable_address(settings.process.host, settings.process.port)}"


def _signer(settings: "Settings") -> Callable[[UUID, str], str]:
    from datetime import timedelta

    from catraca.platform.auth import sign_token

    secret, rules = settings.existing_secret(), settings.token_rules()
    lifetime = timedelta(seconds=TOKEN_SECONDS)
    return lambda person_id, role: sign_token(
        secret, subject=person_id, roles=[role], lifetime=lifetime, rules=rules
    )


def _check(url: str, token: str) -> None:
    """Fail if no Catraca answers there, or if it refuses our tokens."""
    import httpx

    from catraca.client.http import is_local

    try:
        answer = httpx.get(
            f"{url}/v1/me",
            headers={"authorization": f"Bearer {token}"},
            timeout=ASK_SECONDS,
            trust_env=not is_local(url),
        )
    except (httpx.TransportError, httpx.InvalidURL):
        fail(f"no Catraca answers at {url}: start it with `make up`, or name another with --url")
    if answer.status_code == httpx.codes.UNAUTHORIZED.value:
        fail(
            f"{url} refuses tokens of this state folder: run this where Catraca was started,"
            " or set the same CATRACA_STATE_DIR or CATRACA_SECRET",
            REFUSED,
        )
    if not answer.is_success:
        fail(f"{url} answers {answer.status_code} to GET /v1/me: is it a healthy Catraca?")


def _allow_many_connections() -> None:
    """Raise the limit of open files: every person of the city has a socket and HTTP connections."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _stop_on_signals(city: "City") -> None:
    """The first signal ends the city in order; a second Ctrl-C ends it at once."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    running = asyncio.current_task()
    assert running is not None

    def stop() -> None:
        if city.stopping.is_set():
            running.cancel()
        city.stopping.set()

    loop.add_signal_handler(signal.SIGINT, stop)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, city.stopping.set)
