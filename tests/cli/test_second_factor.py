"""`catraca users remove-second-factor` on a real database."""

from pathlib import Path
from uuid import uuid4

import httpx

from catraca.platform.database import Database
from tests.cli.shell import catraca
from tests.domains.people.authenticator import operator_with_factor, sign_in_with
from tests.domains.people.person import actions_on
from tests.servers import Stack, on_one_stack

pytestmark = on_one_stack


async def test_only_operator_gets_in_again(
    api: httpx.AsyncClient, database: Database, stack: Stack, tmp_path: Path
) -> None:
    operator, _ = await operator_with_factor(api)
    command = ("users", "remove-second-factor", str(operator.id))
    ran = await catraca(*command, folder=tmp_path, CATRACA_DATABASE_URL=stack.database_url)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (await sign_in_with(api, operator)).status_code == 200
    assert (None, "second_factor_removed") in await actions_on(database, operator)
    again = await catraca(*command, folder=tmp_path, CATRACA_DATABASE_URL=stack.database_url)
    assert again.returncode == 2
    assert "no such user, or the user has no second factor" in again.stderr


async def test_unknown_user_is_named_as_the_cause(stack: Stack, tmp_path: Path) -> None:
    ran = await catraca(
        "users",
        "remove-second-factor",
        str(uuid4()),
        folder=tmp_path,
        CATRACA_DATABASE_URL=stack.database_url,
    )
    assert ran.returncode == 2
