"""A database in which nobody else's letters are, and an API on it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx
import pytest

from catraca.domains.dead_letters import OpenLetter, ReplayTarget, ReplayTargets
from catraca.domains.dead_letters.replay.routes import ReplayParts
from catraca.events import UserCreated
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Database, Db
from catraca.platform.http.health import Health
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from catraca.roles.replay_targets import replay_targets
from catraca.settings import Settings
from tests.domains.dead_letters.letters import STRICT, execute
from tests.servers import Stack
from tests.support.http import serving
from tests.support.roles import own_parts


@dataclass
class Told:
    """What `STRICT` was told of: letters that nobody will replay."""

    letters: list[OpenLetter] = field(default_factory=list)

    async def hear(self, db: Db, letters: Sequence[OpenLetter]) -> None:
        await db.execute("SELECT")  # the transaction is open
        self.letters += letters


@pytest.fixture(scope="session")
async def own(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings) as parts:
        yield parts


@pytest.fixture
async def database(own: Parts) -> Database:
    await execute(own.database, "TRUNCATE dead_letters, outbox, outbox_sent, outbox_heads, idempotency_keys")
    await execute(own.database, "ALTER TABLE audit_log DISABLE TRIGGER ALL")
    await execute(own.database, "TRUNCATE audit_log")
    await execute(own.database, "ALTER TABLE audit_log ENABLE TRIGGER ALL")
    return own.database


@pytest.fixture(scope="session")
def all_told() -> Told:
    return Told()


@pytest.fixture
def told(all_told: Told) -> Told:
    all_told.letters.clear()
    return all_told


@pytest.fixture(scope="session")
def targets(own: Parts, all_told: Told) -> ReplayTargets:
    """Those of the real queues, and of one that is particular about its messages."""
    strict = EventHandlers[()](STRICT)

    @strict(UserCreated)
    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None: ...

    return {**replay_targets(own.topology), STRICT: ReplayTarget(strict.check, all_told.hear)}


@pytest.fixture(scope="session")
async def letters_api(own: Parts, targets: ReplayTargets) -> AsyncIterator[httpx.AsyncClient]:
    app = build_app(own, Health(required={"database": own.database.is_up}))
    app.state.wired[ReplayParts] = ReplayParts(targets)
    async with serving(app) as served, served.client() as client:
        yield client
