"""`catraca demo`: its failures and its output."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import get_type_hints

import pytest
from rich.console import Console

from catraca.cli.demo import demo
from catraca.cli.demo_screen import Screen
from catraca.client.demo import MOST_DRIVERS, MOST_RIDES_PER_MINUTE, Tally
from tests.cli.shell import catraca
from tests.conftest import SECRET
from tests.servers import on_one_stack

# Allows demo data everywhere.
DEVELOPMENT = {"CATRACA_ENVIRONMENT": "development"}


async def test_unreachable_server_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    given = DEVELOPMENT | {"CATRACA_SECRET": SECRET}
    result = await catraca("demo", "--url", "http://127.0.0.1:1", folder=tmp_path, **given)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert "make up" in line
    assert "http://127.0.0.1:1" in line


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"CATRACA_ENVIRONMENT": "production", "CATRACA_SECRET": SECRET}, "production"),
        ({"CATRACA_JWKS_URL": "https://id.example/keys"}, "identity provider"),
        ({"CATRACA_HOST": "0.0.0.0"}, "CATRACA_HOST"),
        ({"CATRACA_HOST": "db.localhost"}, "CATRACA_HOST"),
        ({"CATRACA_DATABASE_URL": "postgresql://127.0.0.1:1/catraca"}, "CATRACA_DATABASE_URL"),
    ],
)
@pytest.mark.parametrize("command", ["demo", "up"])
async def test_demo_refuses_real_data_and_identity_providers(
    tmp_path: Path, command: str, settings: dict[str, str], words: str
) -> None:
    arguments = ["up", "--demo"] if command == "up" else ["demo"]
    result = await catraca(*arguments, folder=tmp_path, **settings)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert words in line
    assert not (tmp_path / "state/postgres").exists()


async def test_demo_refuses_another_machine(tmp_path: Path) -> None:
    result = await catraca("demo", "--url", "http://192.0.2.1:8000", folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "http://192.0.2.1:8000" in line
    assert "CATRACA_ENVIRONMENT=development" in line


async def test_demo_needs_a_database_in_the_state_folder(tmp_path: Path) -> None:
    result = await catraca("demo", folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "catraca up" in result.stderr


@on_one_stack
async def test_server_with_another_secret_is_reported(api_url: str, tmp_path: Path) -> None:
    result = await catraca("demo", "--url", api_url, folder=tmp_path, **DEVELOPMENT)
    assert (result.returncode, result.stdout) == (2, "")
    assert "CATRACA_SECRET" in result.stderr


def test_option_limits_are_those_of_the_city() -> None:
    options = get_type_hints(demo, include_extras=True)
    (drivers,), (rides,) = options["drivers"].__metadata__, options["rides_per_minute"].__metadata__
    assert (drivers.max, rides.max) == (MOST_DRIVERS, MOST_RIDES_PER_MINUTE)


@pytest.fixture
def tally() -> Tally:
    tally = Tally(requested=3, completed=1)
    tally.note_match(1.25)
    tally.drivers.update(free=4, driving=1)
    tally.messages["ride.accepted"] += 2
    return tally


async def finished(tally: Tally) -> Tally:
    return tally


async def shown(screen: Screen, tally: Tally, *, terminal: bool) -> str:
    text = io.StringIO()
    screen._console = Console(file=text, force_terminal=terminal, width=100, highlight=False)
    await screen.show(finished(tally))
    return text.getvalue()


async def test_terminal_gets_a_table_and_other_output_a_line(tally: Tally) -> None:
    screen = Screen(tally, drivers=6, url="http://127.0.0.1:8000", as_json=False)
    assert "median 1.2 s" in await shown(screen, tally, terminal=True)
    (line,) = (await shown(screen, tally, terminal=False)).replace("\n", " ").split("The city: ")[1:]
    assert "3 rides requested, 1 matched" in line
    assert "5 of 6 drivers at work (4 free, 1 driving)" in line


async def test_json_output_is_one_object(tally: Tally) -> None:
    screen = Screen(tally, drivers=6, url="http://127.0.0.1:8000", as_json=True)
    output = io.StringIO()
    with redirect_stdout(output):
        await shown(screen, tally, terminal=False)
    found = json.loads(output.getvalue())
    assert (found["requested"], found["match_seconds"]["median"], found["drivers"]) == (3, 1.25, 6)


async def test_failure_of_the_city_is_raised(tally: Tally) -> None:
    async def fails() -> Tally:
        raise ZeroDivisionError

    screen = Screen(tally, drivers=6, url="http://127.0.0.1:8000", as_json=False)
    with pytest.raises(ZeroDivisionError):
        await screen.show(fails())
