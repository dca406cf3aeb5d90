"""A database for dead letters only, and an API on it."""

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
from tests.domains.dead_letters.example_letters import STRICT, execute
from tests.servers import Stack
from tests.support.http import serving
from tests.support.roles import own_parts


@dataclass
class DiscardLog:
    """Letters for which `on_discard` of `STRICT` was called."""

    letters: list[OpenLetter] = field(default_factory=list)

    async def add(self, db: Db, letters: Sequence[OpenLetter]) -> None:
        await db.execute("SELECT")  # fails without an open transaction
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
def discard_log() -> DiscardLog:
    return DiscardLog()


@pytest.fixture
def discards(discard_log: DiscardLog) -> DiscardLog:
    discard_log.letters.clear()
    return discard_log


@pytest.fixture(scope="session")
def targets(own: Parts, discard_log: DiscardLog) -> ReplayTargets:
    """The real queues, and one that accepts `user.created` only."""
    strict = EventHandlers[()](STRICT)

    @strict(UserCreated)
    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None: ...

    return {**replay_targets(own.topology), STRICT: ReplayTarget(strict.check, discard_log.add)}


@pytest.fixture(scope="session")
async def letters_api(own: Parts, targets: ReplayTargets) -> AsyncIterator[httpx.AsyncClient]:
    app = build_app(own, Health(required={"database": own.database.is_up}))
    app.state.wired[ReplayParts] = ReplayParts(targets)
    async with serving(app) as served, served.client() as client:
        yield client
