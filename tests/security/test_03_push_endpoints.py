"""Finding 3: web push connected inside, and one person's silent devices stopped it for everybody."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from catraca.domains.notifications.push import store as devices
from catraca.events import PushDue
from catraca.platform.database import outbox
from catraca.platform.web_push import (
    PUSH_SERVICES,
    SILENT_CALLS,
    Pusher,
    PushFailed,
    PushGone,
    PushHosts,
    PushKey,
    Subscription,
)
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.domains.people.person import Person
from tests.security.conftest import AccessHarness
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.push_service import Browser, push_service
from tests.support.roles import own_parts, working
from tests.support.silent_server import SilentServer, silent_server

INSIDE = "https://[::1%25.push.apple.com]/x"


def stored(browser: Browser) -> Subscription:
    return Subscription(browser.subscription["endpoint"], **browser.subscription["keys"])


@pytest.mark.parametrize("endpoint", [INSIDE, "https://[::1]/", "https://127.0.0.1.push.apple.com@[::1]/"])
async def test_endpoint_with_an_address_inside_is_refused(access: AccessHarness, endpoint: str) -> None:
    ana = await Person().known_to(access.api)
    async with served(access.parts, push_hosts=list(PUSH_SERVICES)) as here, here.client() as api:
        answer = await api.post(
            "/v1/push/subscriptions", headers=ana.headers, json=Browser(endpoint).subscription
        )
    assert (answer.status_code, answer.json()["code"]) == (422, "push_endpoint_refused")


async def test_endpoint_stored_before_the_rule_is_gone() -> None:
    pusher = Pusher(PushKey("a secret", contact="mailto:a@example.org"), PushHosts(PUSH_SERVICES))
    with pytest.raises(PushGone):
        await pusher.push(stored(Browser(INSIDE)), b"{}", ttl_seconds=60)


async def test_allowed_name_with_an_address_inside_is_not_called() -> None:
    """A name that matches the list and resolves to this machine: an address is such a name."""
    pusher = Pusher(PushKey("a secret", contact="mailto:a@example.org"), PushHosts(["127.0.0.1"]))
    with pytest.raises(PushFailed, match="address_refused"):
        await pusher.push(stored(Browser("https://127.0.0.1/x")), b"{}", ttl_seconds=60)


async def test_silent_push_service_is_paused() -> None:
    async with push_service() as service:
        pass
    hosts = PushHosts([service.origin])
    pusher = Pusher(PushKey("a secret", contact="mailto:a@example.org"), hosts)
    to = stored(Browser(f"{service.origin}/x"))
    codes = list[str]()
    for _ in range(SILENT_CALLS + 1):
        with pytest.raises(PushFailed) as failed:
            await pusher.push(to, b"{}", ttl_seconds=60)
        codes.append(failed.value.code)
    assert codes == ["ConnectError"] * SILENT_CALLS + ["push_service_paused"]


@pytest.fixture
async def silent() -> AsyncIterator[SilentServer]:
    async with silent_server() as silent:
        yield silent


async def make_due(parts: Parts, user_id: UUID) -> None:
    """Record a notification and a due push for each device of the user."""
    async with parts.database.transaction() as db:
        await db.execute("INSERT INTO notification_heads (user_id, seq) VALUES ($1, 1)", user_id)
        await db.execute(
            "INSERT INTO notifications (user_id, seq, event_id, type, data)"
            " VALUES ($1, 1, gen_random_uuid(), 'ride.matched', '{}')",
            user_id,
        )
        due = await devices.subscriptions_of(db, [user_id])
        await outbox.record(
            db, *(PushDue(subscription_id=device, user_id=user_id, seq=1) for _, device in due)
        )


async def test_silent_devices_of_one_person_delay_no_other(
    stack: Stack, settings: Settings, silent: SilentServer
) -> None:
    async with (
        push_service() as service,
        own_parts(
            stack,
            settings,
            push_contact="mailto:operator@example.org",
            push_hosts=[service.origin, silent.origin],
        ) as parts,
        served(parts) as here,
        here.client() as api,
    ):
        thief, ana = await Person().known_to(api), await Person().known_to(api)
        for person, origin, count in ((thief, silent.origin, 10), (ana, service.origin, 1)):
            for number in range(count):
                browser = Browser(f"{origin}/{number}")
                answer = await api.post(
                    "/v1/push/subscriptions", headers=person.headers, json=browser.subscription
                )
                assert answer.status_code == 201, answer.text
            await make_due(parts, person.id)
        async with working(parts, ["relay", "notifier"]):
            await until(lambda: service.taken)
            # Two pushes of the thief wait for an answer; before, Ana's waited for all ten.
            assert silent.closed < 5
            await until(lambda: silent.opened == 2)

            async def waits_without_a_transaction() -> bool:
                # In this order: a transaction of a push would stay open until its connection is closed.
                return await idle_in_transaction(parts) == 0 and silent.closed < 2

            await until(waits_without_a_transaction)
            silent.hang_up()


async def idle_in_transaction(parts: Parts) -> int:
    """The number of transactions of this database that wait for their client."""
    assert parts.settings.servers.database_url is not None
    connection = await asyncpg.connect(parts.settings.servers.database_url)
    try:
        return await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'idle in transaction'"
        )
    finally:
        await connection.close()
