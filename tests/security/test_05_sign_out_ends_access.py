"""Finding 5: a thief's device, trip links and calendar links outlived "sign out everywhere"."""

from datetime import timedelta

import pytest

from catraca.domains.notifications.push.service import subscribe_device
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.web_push import PushHosts, Subscription
from catraca.roles.agents.retention_pruner import RetentionPruner
from tests.conftest import bearer
from tests.domains.people.person import PASSWORD, Person, link_for, sign_in, use_link
from tests.security.conftest import AccessHarness


async def signed_in(access: AccessHarness, person: Person) -> dict[str, str]:
    """The headers of a new token, by password."""
    answer = await sign_in(access.api, person.email)
    assert answer.status_code == 200, answer.text
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


async def test_sign_out_ends_devices_and_links(access: AccessHarness) -> None:
    ana = await Person().with_password(access.api)
    stolen = await signed_in(access, ana)
    thief = access.new_browser()
    assert (await access.subscribe(stolen, thief)).status_code == 201
    trip = await access.share_trip(stolen)
    calendar = await access.link_calendar(await access.new_worker(ana.id), bearer("worker", ana.id))
    assert [await access.status_of(path) for path in (trip, calendar)] == [200, 200]

    assert (await access.api.post("/v1/me/sign-out", headers=stolen)).status_code == 204

    assert await access.pushed_devices(ana.id) == 0
    assert [await access.status_of(path) for path in (trip, calendar)] == [404, 404]
    again = await signed_in(access, ana)
    listed = await access.api.get("/v1/push/subscriptions", headers=again)
    assert listed.json() == {"items": []}
    # The owner's device can be subscribed at once.
    assert (await access.subscribe(again, access.new_browser())).status_code == 201
    assert await access.pushed_devices(ana.id) == 1


async def test_new_password_ends_devices_and_links(access: AccessHarness) -> None:
    ana = await Person().with_email(access.api)
    assert (await access.subscribe(ana.headers, access.new_browser())).status_code == 201
    trip = await access.share_trip(ana.headers)
    assert (await use_link(access.api, await link_for(access.api, ana), PASSWORD)).status_code == 204
    assert await access.pushed_devices(ana.id) == 0
    assert await access.status_of(trip) == 404


async def test_revoked_token_adds_no_device_that_outlives_it(access: AccessHarness) -> None:
    """A process may accept a revoked token for a second (decision 5)."""
    ana = await Person().known_to(access.api)
    before = Principal(
        ana.id, frozenset({"passenger"}), issued_at=now(), expires_at=now() + timedelta(hours=1)
    )
    assert (await access.api.post("/v1/me/sign-out", headers=ana.headers)).status_code == 204
    keys = access.new_browser().subscription
    device = Subscription(keys["endpoint"], **keys["keys"])
    hosts = PushHosts([access.push.origin])
    await access.parts.database.run(lambda db: subscribe_device(db, before, device, hosts=hosts))
    assert await access.pushed_devices(ana.id) == 0


async def test_device_moves_to_another_account_only_with_its_keys(access: AccessHarness) -> None:
    ana, thief = await Person().known_to(access.api), await Person().known_to(access.api)
    browser = access.new_browser()
    assert (await access.subscribe(ana.headers, browser)).status_code == 201
    forged = access.new_browser()
    forged.subscription["endpoint"] = browser.subscription["endpoint"]
    refused = await access.subscribe(thief.headers, forged)
    assert (refused.status_code, refused.json()["code"]) == (409, "push_endpoint_taken")
    assert await access.pushed_devices(ana.id) == 1
    # With its keys it is the same device, on which another person has signed in.
    bia = await Person().known_to(access.api)
    assert (await access.subscribe(bia.headers, browser)).status_code == 201
    assert (await access.pushed_devices(ana.id), await access.pushed_devices(bia.id)) == (0, 1)


async def test_half_of_the_keys_moves_no_device(access: AccessHarness) -> None:
    ana, thief = await Person().known_to(access.api), await Person().known_to(access.api)
    browser = access.new_browser()
    await access.subscribe(ana.headers, browser)
    for kept in ("p256dh", "auth"):
        forged = access.new_browser()
        forged.subscription["endpoint"] = browser.subscription["endpoint"]
        forged.subscription["keys"]["auth"] = "AAAAAAAAAAAAAAAAAAAAAA"
        forged.subscription["keys"][kept] = browser.subscription["keys"][kept]
        assert (await access.subscribe(thief.headers, forged)).status_code == 409
    assert await access.pushed_devices(ana.id) == 1


async def test_ended_rows_are_pruned(access: AccessHarness) -> None:
    ana = await Person().known_to(access.api)
    await access.subscribe(ana.headers, access.new_browser())
    await access.share_trip(ana.headers)
    await link_for(access.api, ana)
    assert (await access.api.post("/v1/me/sign-out", headers=ana.headers)).status_code == 204
    bia = await Person().known_to(access.api)
    await access.subscribe(bia.headers, access.new_browser())
    await RetentionPruner(access.parts).prune()
    async with access.parts.database.connection() as db:
        for table, owner in (
            ("push_subscriptions", "user_id"),
            ("trip_shares", "passenger_id"),
            ("password_links", "user_id"),
        ):
            left = f"SELECT count(*) FROM {table} WHERE {owner} = $1"
            assert await db.fetchval(left, ana.id) == 0, table
    assert await access.pushed_devices(bia.id) == 1


@pytest.mark.parametrize("by", ["self", "operator"])
async def test_sign_out_ends_older_password_links_only(access: AccessHarness, by: str) -> None:
    ana = await Person().with_email(access.api)
    old = await link_for(access.api, ana)
    path, headers = {
        "self": ("/v1/me/sign-out", ana.headers),
        "operator": (f"/v1/users/{ana.id}/sign-out", bearer("operator")),
    }[by]
    assert (await access.api.post(path, headers=headers)).status_code == 204
    refused = await use_link(access.api, old)
    assert (refused.status_code, refused.json()["code"]) == (404, "password_link_invalid")
    assert (await use_link(access.api, await link_for(access.api, ana))).status_code == 204


async def test_password_link_outlasts_a_change_of_roles(access: AccessHarness) -> None:
    """An operator gives a new person roles before the person sets the first password."""
    ana = await Person().with_email(access.api)
    link = await link_for(access.api, ana)
    roles = {"roles": ["passenger", "worker"]}
    changed = await access.api.put(f"/v1/users/{ana.id}/roles", json=roles, headers=bearer("operator"))
    assert changed.status_code == 200, changed.text
    assert (await use_link(access.api, link)).status_code == 204


async def test_revoked_password_link_stays_revoked_after_roles(access: AccessHarness) -> None:
    ana = await Person().with_email(access.api)
    link = await link_for(access.api, ana)
    assert (await access.api.post("/v1/me/sign-out", headers=ana.headers)).status_code == 204
    await access.api.put(
        f"/v1/users/{ana.id}/roles", json={"roles": ["passenger"]}, headers=bearer("operator")
    )
    assert (await use_link(access.api, link)).status_code == 404
