"""Everything that gives access, against every event that can end it.

A column that holds a digest, hash or token fails the suite without a row here. To add one, add the access to
`give_all`, its outcome after each event to `ENDS`, and its column to `COLUMNS`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import asyncpg
import httpx
import pytest

from catraca.domains.notifications.sockets import hub
from catraca.domains.onboarding.model import Seal, SignUp
from catraca.domains.onboarding.service import write_sign_ups
from tests.conftest import bearer
from tests.domains.notifications.wire import CLOSE, TEXT, frame, head, wire_to
from tests.domains.people.person import PASSWORD, Person, link_for, sign_in, use_link
from tests.security.conftest import AccessHarness
from tests.servers import Stack, until

# For each access, the events that end it. The others leave it as it is.
REVOCATIONS = {"sign out", "sign out by an operator", "new password", "other roles", "erasure"}
ENDS: dict[str, set[str]] = {
    "token": REVOCATIONS,
    "open socket": REVOCATIONS,
    "ticket": REVOCATIONS,
    "push device": REVOCATIONS,
    "trip link": REVOCATIONS,
    "worker's calendar link": REVOCATIONS | {"worker retired"},
    "operator's calendar link": REVOCATIONS | {"worker retired"},
    # Not by other roles: it is the way in for a person who gets roles before the first sign-in.
    "password link": REVOCATIONS - {"other roles"},
    "password": {"new password", "erasure"},
    # These show nothing more, or need a token of the same person too.
    "status token of the sign-up": {"erasure"},
    "stored answer": {"erasure"},
}
EVENTS = sorted(REVOCATIONS | {"worker retired", "driver suspended"})

# Columns of secrets, by the access that they give; None: no access, for the reason beside it.
COLUMNS: dict[str, str | None] = {
    "users.password_hash": "password",
    "users.tokens_valid_after": "token",
    "password_links.token_sha256": "password link",
    "ws_tickets.digest": "ticket",
    "ws_tickets.token_issued_at": "ticket",
    "ws_tickets.token_expires_at": "ticket",
    "trip_shares.digest": "trip link",
    "subjects.feed_hash": "worker's calendar link",
    "push_subscriptions.auth": "push device",
    "push_subscriptions.p256dh": "push device",
    "idempotency_keys.fingerprint": "stored answer",
    "idempotency_keys.scope": "stored answer",
    "ride_confirmations.token_hash": None,  # a confirmation needs a token of its passenger too
    # These only add to a password, which is ended.
    "second_factors.secret": None,
    "recovery_codes.digest": None,
    "sign_in_addresses.mark": None,  # saves a wait, gives no access
    "ride_confirmations.asked_hash": None,  # the digest of a request
}

Probe = Callable[[], Awaitable[bool]]


@dataclass
class Owner:
    """A person who has a password, is a worker and a driver, and has signed up."""

    person: Person
    headers: dict[str, str]
    worker_id: str
    probes: dict[str, Probe]


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep often, so that revoked sockets are found soon."""
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)


@pytest.fixture
async def owner(access: AccessHarness) -> AsyncIterator[Owner]:
    person = Person()
    seal = Seal(access.parts.settings.signing_secret())
    request_id = seal.request_id(person.id, name="Ana", email=person.email)
    sign_up = SignUp(id=person.id, name="Ana", email=person.email, language="en", request_id=request_id)  # type: ignore[arg-type]
    await access.parts.database.run(lambda db: write_sign_ups(db, [sign_up]))
    assert (await use_link(access.api, await link_for(access.api, person))).status_code == 204
    roles = {"roles": ["passenger", "driver", "worker"]}
    changed = await access.api.put(f"/v1/users/{person.id}/roles", json=roles, headers=bearer("operator"))
    assert changed.status_code == 200, changed.text
    token = (await sign_in(access.api, person.email)).json()["access_token"]
    made = Owner(person, {"authorization": f"Bearer {token}"}, await access.new_worker(person.id), {})
    async with AsyncExitStack() as open_sockets:
        await give_all(access, made, open_sockets, seal.status_token(sign_up))
        yield made


async def give_all(access: AccessHarness, owner: Owner, sockets: AsyncExitStack, status_token: str) -> None:
    """Give every access; each probe says whether it still works."""
    api, person, headers, probes = access.api, owner.person, owner.headers, owner.probes

    def is_200(path: str, sent: dict[str, str] | None = None) -> Probe:
        async def probe() -> bool:
            return (await api.get(path, headers=sent)).status_code == 200

        return probe

    probes["token"] = is_200("/v1/me", headers)
    probes["trip link"] = is_200(await access.share_trip(headers))
    status = {"authorization": f"Bearer {status_token}"}
    probes["status token of the sign-up"] = is_200(f"/v1/users/{person.id}/status", status)

    assert (await access.subscribe(headers, access.new_browser())).status_code == 201

    async def is_pushed() -> bool:
        return await access.pushed_devices(person.id) == 1

    probes["push device"] = is_pushed

    socket = await sockets.enter_async_context(wire_to(access.port))
    await socket.opened(headers["authorization"])

    async def is_open() -> bool:
        """A closed socket has a frame that says so; an open one answers."""
        await socket.push(frame(TEXT, b'{"type":"ping","id":"1"}'))
        while (found := await socket.frame())[0] == TEXT:
            if b'"reply"' in found[1] or b'"error"' in found[1]:
                return True
        return found[0] != CLOSE

    probes["open socket"] = is_open

    ticket = (await api.post("/v1/ws/ticket", headers=headers)).json()["ticket"]

    async def opens() -> bool:
        async with wire_to(access.port) as wire:
            wire.send(head(target=f"/v1/ws?ticket={ticket}"))
            return (await wire.answer()).status == 101

    probes["ticket"] = opens

    password_link = await link_for(api, person)

    async def sets_password() -> bool:
        return (await use_link(api, password_link, "another quiet turnstile")).status_code == 204

    async def signs_in() -> bool:
        return (await sign_in(api, person.email, PASSWORD)).status_code == 200

    probes["password"] = signs_in
    probes["password link"] = sets_password

    async def is_stored() -> bool:
        low, high = person.id.bytes + bytes(16), person.id.bytes + b"\xff" * 16
        async with access.parts.database.connection() as db:
            query = "SELECT count(*) FROM idempotency_keys WHERE scope BETWEEN $1 AND $2"
            return await db.fetchval(query, low, high) == 1

    keyed = headers | {"idempotency-key": "once"}
    assert (await api.patch("/v1/me", headers=keyed, json={"name": "Ana"})).status_code == 200
    probes["stored answer"] = is_stored


async def happen(access: AccessHarness, owner: Owner, event: str) -> None:
    api, user, operator = access.api, f"/v1/users/{owner.person.id}", bearer("operator")
    worker = {"name": "Ana", "time_zone": "UTC", "retired": True}
    match event:
        case "sign out":
            answer = await api.post("/v1/me/sign-out", headers=owner.headers)
        case "sign out by an operator":
            answer = await api.post(f"{user}/sign-out", headers=operator)
        case "new password":
            answer = await use_link(api, await link_for(api, owner.person), "a new quiet turnstile")
        case "other roles":
            answer = await api.put(f"{user}/roles", json={"roles": ["passenger", "driver"]}, headers=operator)
        case "worker retired":
            path = f"/v1/scheduling/workers/{owner.worker_id}"
            answer = await api.put(path, json=worker, headers=operator)
        case "driver suspended":
            verdict = {"approval": "suspended", "reason": "complaints"}
            answer = await api.put(f"/v1/drivers/{owner.person.id}/approval", json=verdict, headers=operator)
        case _:
            answer = await end_ride_and_erase(access, owner)
    assert answer.is_success, answer.text


async def end_ride_and_erase(access: AccessHarness, owner: Owner) -> httpx.Response:
    """Erasure is refused during a ride. The link to a canceled one works for an hour."""
    async with access.parts.database.connection() as db:
        ride_id = await db.fetchval("SELECT id FROM rides WHERE passenger_id = $1", owner.person.id)
    await access.api.post(
        f"/v1/rides/{ride_id}/cancel", json={"reason": "changed_plans"}, headers=owner.headers
    )
    assert await owner.probes["trip link"]()
    return await access.api.delete(f"/v1/users/{owner.person.id}", headers=bearer("operator"))


async def is_ended(probe: Probe) -> bool:
    return not await probe()


async def never() -> bool:
    """The probe of a token or socket that has ended: a closed socket cannot be asked again."""
    return False


@pytest.mark.parametrize("link", ["worker's calendar link", "operator's calendar link"])
@pytest.mark.parametrize("event", EVENTS)
async def test_event_ends_the_access_it_must_end(
    access: AccessHarness, owner: Owner, event: str, link: str
) -> None:
    maker = owner.headers if link.startswith("worker") else bearer("operator")
    calendar = await access.link_calendar(owner.worker_id, maker)

    async def is_read() -> bool:
        return await access.status_of(calendar) == 200

    # The password link last: its use revokes.
    last = owner.probes.pop("password link")
    probes = {**owner.probes, link: is_read, "password link": last}
    await happen(access, owner, event)
    # A process caches for a second, and sockets are swept.
    for name in ("token", "open socket"):
        if event in ENDS[name]:
            await until(partial(is_ended, probes[name]))
            probes[name] = never
    found = {name: await probe() for name, probe in probes.items()}
    assert found == {name: event not in ENDS[name] for name in probes}


async def test_every_column_of_a_secret_has_a_row(stack: Stack) -> None:
    connection = await asyncpg.connect(await stack.migrated_database("matrix-columns"))
    rows = await connection.fetch(
        """
        SELECT table_name || '.' || column_name AS name FROM information_schema.columns
        WHERE table_schema = 'public' AND (
          column_name ~ '(digest|hash|token|sha256|secret|fingerprint|scope|code_|p256dh|auth)'
          OR data_type = 'bytea' AND column_name !~ '^(body|original_body|headers)$')
        """
    )
    await connection.close()
    found = {row["name"] for row in rows}
    assert found == set(COLUMNS), " ".join(sorted(found ^ set(COLUMNS)))
    assert {access for access in COLUMNS.values() if access} <= set(ENDS)
