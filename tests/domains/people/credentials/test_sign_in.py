"""Passwords: set with a one-use link, checked at sign-in, with limited attempts."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest
from argon2 import PasswordHasher

from catraca.domains.people import ensure_user
from catraca.domains.people.credentials import service, store
from catraca.domains.people.credentials.errors import CredentialsInvalid, PasswordLinkInvalid
from catraca.domains.people.credentials.model import ADDRESSES_PER_USER, AddressMarks
from catraca.domains.people.credentials.store import prune_password_links, prune_sign_in_addresses
from catraca.domains.people.model import UserId
from catraca.platform.database import Database
from catraca.platform.ids import token_digest
from catraca.platform.passwords import Passwords
from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import QUICK_HASHER, bearer, free_port, listening
from tests.domains.people.person import PASSWORD, Person, link_for, sign_in, use_link
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


def token_headers(answer: httpx.Response) -> dict[str, str]:
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


async def test_link_sets_the_password_for_sign_in(api: httpx.AsyncClient) -> None:
    driver = await Person("driver").with_password(api)
    answer = await sign_in(api, driver.email.upper())
    assert answer.status_code == 200
    assert answer.json()["token_type"] == "bearer"
    assert answer.json()["expires_in"] == 3600
    profile = (await api.get("/v1/me", headers=token_headers(answer))).json()
    assert profile["id"] == str(driver.id)
    assert profile["roles"] == ["driver"]


async def test_password_matches_in_every_unicode_form(api: httpx.AsyncClient) -> None:
    ana = await Person().with_password(api, "cafe\u0301 da manha\u0303")
    assert (await sign_in(api, ana.email, "café da manhã")).status_code == 200


async def test_failed_sign_ins_have_the_same_answer(api: httpx.AsyncClient) -> None:
    known = await Person().with_password(api)
    without_password = await Person().with_email(api)
    erased = await Person().with_password(api)
    await api.delete(f"/v1/users/{erased.id}", headers=bearer("operator"))
    answers = [
        await sign_in(api, known.email, "not the password"),
        await sign_in(api, f"{uuid4()}@example.com"),
        await sign_in(api, "no address at all"),
        await sign_in(api, without_password.email),
        await sign_in(api, erased.email),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text.replace(answer.json()["request_id"], "") for answer in answers}) == 1
    assert answers[0].json()["code"] == "credentials_invalid"


async def test_unknown_address_costs_a_full_password_check(database: Database) -> None:
    """Counted at the hasher, not timed: one verification for every address."""

    class Counting(PasswordHasher):
        checks = 0

        def verify(self, *arguments: str | bytes) -> bool:
            Counting.checks += 1
            return super().verify(*arguments)

    with pytest.raises(CredentialsInvalid):
        await service.check_password(
            database.run, Passwords(Counting()), email=f"{uuid4()}@example.com", password=PASSWORD
        )
    assert Counting.checks == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": "ana@example.com"},
        {"email": "ana@example.com", "password": ""},
        {"email": "", "password": PASSWORD},
        {"email": "ana@example.com", "password": "x" * 129},
        {"email": "a" * 255, "password": PASSWORD},
        {"email": "ana@example.com", "password": 1234567890},
        {"email": "ana@example.com", "password": PASSWORD, "grant_type": "password"},
    ],
)
async def test_invalid_sign_in_is_refused(api: httpx.AsyncClient, body: object) -> None:
    answer = await api.post("/v1/auth/token", json=body)
    assert answer.status_code == 422
    assert PASSWORD not in answer.text


@pytest.mark.parametrize("password", ["", "nine char", "x" * 129, 1234567890, None])
async def test_wrong_length_is_refused_and_the_link_stays_valid(
    api: httpx.AsyncClient, password: object
) -> None:
    link = await link_for(api, await Person().with_email(api))
    answer = await api.post("/v1/auth/password", json={"token": link, "password": password})
    assert answer.status_code == 422
    assert (await use_link(api, link)).status_code == 204


async def test_address_is_refused_as_password(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    link = await link_for(api, ana)
    answer = await use_link(api, link, ana.email.upper())
    assert answer.status_code == 422
    assert answer.json()["code"] == "password_is_email"
    assert (await use_link(api, link)).status_code == 204


async def test_link_works_once(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    link = await link_for(api, ana)
    assert (await use_link(api, link)).status_code == 204
    again = await use_link(api, link, "another good password")
    assert again.status_code == 404
    assert again.json()["code"] == "password_link_invalid"
    assert (await sign_in(api, ana.email)).status_code == 200


async def test_concurrent_uses_of_a_link_have_one_winner(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    link = await link_for(api, ana)
    passwords = [f"password number {number}" for number in range(12)]
    answers = await asyncio.gather(*(use_link(api, link, password) for password in passwords))
    assert sorted(answer.status_code for answer in answers) == [204] + [404] * 11
    winner = passwords[[answer.status_code for answer in answers].index(204)]
    assert (await sign_in(api, ana.email, winner)).status_code == 200


async def test_database_lets_one_use_of_a_link_win(database: Database) -> None:
    """Calls without the check before the hashing: only the database decides."""
    owner = await _person(database)
    link = await database.run(
        lambda db: service.issue_password_link(db, owner, lifetime=timedelta(hours=1), by=owner)
    )
    digest = token_digest(link.token)
    outcomes = await asyncio.gather(
        *(
            database.run(lambda db: service._use_link(db, owner, digest, "a hash", bytes(32)))
            for _ in range(20)
        ),
        return_exceptions=True,
    )
    assert outcomes.count(None) == 1


async def test_link_that_expires_during_hashing_is_refused(database: Database) -> None:
    owner = await _person(database)
    link = await database.run(
        lambda db: service.issue_password_link(db, owner, lifetime=timedelta(hours=1), by=owner)
    )

    class Slow(Passwords):
        async def hash(self, password: str) -> str:
            async with database.transaction() as db:
                await db.execute(
                    "UPDATE password_links SET expires_at = clock_timestamp() WHERE user_id = $1", owner
                )
            return await super().hash(password)

    with pytest.raises(PasswordLinkInvalid):
        await service.set_password(
            database.run, Slow(), AddressMarks("s"), token=link.token, password=PASSWORD, address="::1"
        )
    async with database.connection() as db:
        assert await db.fetchval("SELECT password_hash FROM users WHERE id = $1", owner) is None


async def test_unknown_link_is_refused_like_a_used_one(api: httpx.AsyncClient) -> None:
    answer = await use_link(api, "an unknown link")
    assert answer.status_code == 404
    assert answer.json()["code"] == "password_link_invalid"


async def test_new_link_replaces_the_last_one(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    first, second = await link_for(api, ana), await link_for(api, ana)
    assert (await use_link(api, first)).status_code == 404
    assert (await use_link(api, second)).status_code == 204


async def test_concurrent_links_leave_one_that_works(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_email(api)
    links = await asyncio.gather(*(link_for(api, ana) for _ in range(8)))
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM password_links WHERE user_id = $1", ana.id) == 1
    answers = [await use_link(api, link) for link in links]
    assert sorted(answer.status_code for answer in answers) == [204] + [404] * 7


async def test_expired_link_is_refused_by_the_database_clock(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana = await Person().with_email(api)
    link = await link_for(api, ana)
    async with database.transaction() as db:
        await db.execute(
            "UPDATE password_links SET expires_at = clock_timestamp() WHERE user_id = $1", ana.id
        )
    assert (await use_link(api, link)).status_code == 404


async def test_link_token_is_not_stored(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_email(api)
    operator = Person("operator")
    headers = {**operator.headers, "idempotency-key": str(uuid4())}
    answers = [await api.post(f"/v1/users/{ana.id}/password-link", headers=headers) for _ in range(2)]
    assert answers[0].json()["token"] != answers[1].json()["token"], "a response with a secret is not stored"
    async with database.connection() as db:
        stored = await db.fetch("SELECT l::text AS row FROM password_links l")
        audited = await db.fetch("SELECT a::text AS row FROM audit_log a WHERE subject_id = $1", str(ana.id))
    token = answers[1].json()["token"]
    assert len(token) == 43
    assert not any(token in row["row"] for row in [*stored, *audited])


async def test_new_link_is_audited(api: httpx.AsyncClient, database: Database) -> None:
    ana, operator = await Person().known_to(api), Person("operator")
    await api.post(f"/v1/users/{ana.id}/password-link", headers=operator.headers)
    async with database.connection() as db:
        row = await db.fetchrow("SELECT * FROM audit_log WHERE subject_id = $1", str(ana.id))
    assert row is not None
    assert (row["actor_id"], row["action"]) == (operator.id, "password_link_issued")


async def test_new_password_revokes_older_tokens(api: httpx.AsyncClient) -> None:
    ana = await Person().with_password(api)
    before = token_headers(await sign_in(api, ana.email))
    assert (await api.get("/v1/me", headers=before)).status_code == 200
    await use_link(api, await link_for(api, ana), "another good password")

    async def refused() -> bool:
        return (await api.get("/v1/me", headers=before)).json().get("code") == "token_revoked"

    await until(refused)
    after = token_headers(await sign_in(api, ana.email, "another good password"))
    assert (await api.get("/v1/me", headers=after)).status_code == 200


async def test_token_is_dated_when_its_password_was_read(api: httpx.AsyncClient, database: Database) -> None:
    """A password that changes during the check also revokes the token of the old one."""
    ana = await Person().with_password(api)

    class Slow(Passwords):
        async def matches(self, password: str, password_hash: str | None) -> bool:
            matched = await super().matches(password, password_hash)
            await database.run(lambda db: store.set_password(db, UserId(ana.id), "a newer hash"))
            return matched

    login = await service.check_password(database.run, Slow(), email=ana.email, password=PASSWORD)
    async with database.connection() as db:
        valid_after = await db.fetchval("SELECT tokens_valid_after FROM users WHERE id = $1", ana.id)
    assert login.as_of < valid_after


async def test_outdated_hash_is_renewed_at_sign_in(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_email(api)
    old = PasswordHasher(time_cost=1, memory_cost=1024).hash(PASSWORD)
    await database.run(lambda db: store.set_password(db, UserId(ana.id), old))
    assert (await sign_in(api, ana.email)).status_code == 200
    async with database.connection() as db:
        new = await db.fetchval("SELECT password_hash FROM users WHERE id = $1", ana.id)
    assert new != old
    assert not QUICK_HASHER.check_needs_rehash(new)
    assert (await sign_in(api, ana.email)).status_code == 200


async def test_renewed_hash_never_replaces_a_newer_password(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana = await Person().with_email(api)
    old = PasswordHasher(time_cost=1, memory_cost=1024).hash(PASSWORD)
    await database.run(lambda db: store.set_password(db, UserId(ana.id), old))

    class Slow(Passwords):
        async def hash(self, password: str) -> str:
            await database.run(lambda db: store.set_password(db, UserId(ana.id), "a newer hash"))
            return await super().hash(password)

    await service.check_password(database.run, Slow(), email=ana.email, password=PASSWORD)
    async with database.connection() as db:
        assert await db.fetchval("SELECT password_hash FROM users WHERE id = $1", ana.id) == "a newer hash"


async def test_strangers_guesses_are_counted_per_account(
    strict_api: httpx.AsyncClient,
) -> None:
    email = f"{uuid4()}@example.com"
    guesses = [
        await sign_in(strict_api, spelling, **{"x-forwarded-for": f"198.51.100.{number}"})
        for number, spelling in enumerate([email, email.upper(), email, email])
    ]
    assert [guess.status_code for guess in guesses] == [401, 401, 401, 429]
    assert guesses[-1].json()["code"] == "too_many_requests"
    assert int(guesses[-1].headers["retry-after"]) > 0


async def test_guesses_are_counted_per_network_address(
    strict_api: httpx.AsyncClient,
) -> None:
    guesses = [
        await sign_in(strict_api, f"{uuid4()}@example.com", **{"x-forwarded-for": "203.0.113.7"})
        for _ in range(6)
    ]
    assert [guess.status_code for guess in guesses] == [401] * 5 + [429]


async def test_passwords_are_off_with_an_identity_provider(settings: Settings) -> None:
    provided = settings.changed(port=free_port(), jwks_url="https://id.example.com/keys")
    async with (
        open_parts(provided) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, headers={"accept-language": "en"}) as client,
    ):
        answers = [await sign_in(client, "ana@example.com"), await use_link(client, "any")]
    for answer in answers:
        assert answer.status_code == 404
        assert answer.json()["code"] == "password_login_off"


async def test_used_and_expired_links_are_pruned(api: httpx.AsyncClient, database: Database) -> None:
    used, expired, live = [await Person().with_email(api) for _ in range(3)]
    await use_link(api, await link_for(api, used))
    await link_for(api, expired)
    link = await link_for(api, live)
    async with database.transaction() as db:
        await db.execute(
            "UPDATE password_links SET expires_at = clock_timestamp() WHERE user_id = $1", expired.id
        )
    assert await database.run(prune_password_links) >= 2
    async with database.connection() as db:
        left = await db.fetch(
            "SELECT user_id FROM password_links WHERE user_id = ANY ($1::uuid[])",
            [used.id, expired.id, live.id],
        )
    assert [row["user_id"] for row in left] == [live.id]
    assert (await use_link(api, link)).status_code == 204


async def test_addresses_of_sign_ins_are_limited_and_pruned(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana, rui = await Person().with_password(api), await Person().with_password(api)
    for number in range(ADDRESSES_PER_USER + 5):
        mark = AddressMarks("s").of(ana.email, str(number))
        await database.run(lambda db, mark=mark: service._remember_address(db, UserId(ana.id), mark))
    count = "SELECT count(*) FROM sign_in_addresses WHERE user_id = $1"
    async with database.transaction() as db:
        assert await db.fetchval(count, ana.id) == ADDRESSES_PER_USER
        await db.execute(
            "UPDATE sign_in_addresses SET seen_at = seen_at - interval '91 days' WHERE user_id = $1", ana.id
        )
    while await database.run(prune_sign_in_addresses):
        pass
    async with database.connection() as db:
        assert [await db.fetchval(count, user.id) for user in (ana, rui)] == [0, 1]


async def test_address_is_not_stored_for_an_erased_user(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_password(api)
    await api.delete(f"/v1/users/{ana.id}", headers=bearer("operator"))
    await database.run(lambda db: store.remember_address(db, UserId(ana.id), bytes(32)))
    async with database.connection() as db:
        kept = await db.fetchval("SELECT count(*) FROM sign_in_addresses WHERE user_id = $1", ana.id)
    assert kept == 0


async def _person(database: Database) -> UserId:
    user_id = UserId(uuid4())
    await database.run(lambda db: ensure_user(db, user_id, roles=["passenger"], driver_approval="automatic"))
    return user_id
