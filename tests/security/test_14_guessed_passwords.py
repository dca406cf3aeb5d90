"""Guesses at a password slow their sender down; they do not lock the account's owner out."""

from collections.abc import AsyncIterator
from ipaddress import ip_network
from uuid import uuid4

import httpx
import pytest

from catraca.domains.people.credentials.service import SignInLimits
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.redis_client import RedisClient
from catraca.roles.parts import Parts, open_parts
from catraca.settings import Settings
from tests.conftest import free_port, listening
from tests.domains.people.person import Person, link_for, sign_in

WRONG = "not the password"
HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"


@pytest.fixture
async def guarded(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """An API behind a proxy: three sign-ins a day for an account from unknown addresses."""
    changes = {
        "port": free_port(),
        "trusted_proxies": [ip_network("127.0.0.1")],
        "rate_limit_sign_in_account": "3/day",
    }
    async with (
        open_parts(settings.changed(**changes)) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, headers={"accept-language": "en"}, timeout=30) as client,
    ):
        yield client


async def sign_in_from(api: httpx.AsyncClient, address: str, email: str, *password: str) -> httpx.Response:
    return await sign_in(api, email, *password, **{"x-forwarded-for": address})


async def guesses_of_strangers(api: httpx.AsyncClient, email: str) -> list[int]:
    answers = [await sign_in_from(api, f"192.0.2.{number}", email, WRONG) for number in range(1, 13)]
    return [answer.status_code for answer in answers]


async def test_wrong_passwords_do_not_lock_the_owner_out(guarded: httpx.AsyncClient) -> None:
    """The finding: ten wrong passwords from anywhere, and the owner's right one is refused with 429."""
    owner = await Person().with_password(guarded)
    assert (await sign_in_from(guarded, HOME, owner.email)).status_code == 200
    assert await guesses_of_strangers(guarded, owner.email) == [401] * 2 + [429] * 10
    assert (await sign_in_from(guarded, HOME, owner.email)).status_code == 200
    assert (await sign_in_from(guarded, ELSEWHERE, owner.email)).status_code == 429, "an unknown address"


async def test_password_link_makes_a_new_address_known(guarded: httpx.AsyncClient) -> None:
    owner = await Person().with_password(guarded)
    assert await guesses_of_strangers(guarded, owner.email) == [401] * 3 + [429] * 9
    assert (await sign_in_from(guarded, ELSEWHERE, owner.email)).status_code == 429
    link = {"token": await link_for(guarded, owner), "password": "another good password"}
    assert (
        await guarded.post("/v1/auth/password", json=link, headers={"x-forwarded-for": ELSEWHERE})
    ).status_code == 204
    assert (await sign_in_from(guarded, ELSEWHERE, owner.email, "another good password")).status_code == 200


async def test_failures_from_a_known_address_must_wait(guarded: httpx.AsyncClient) -> None:
    owner = await Person().with_password(guarded)
    await sign_in_from(guarded, HOME, owner.email)
    answers = [await sign_in_from(guarded, HOME, owner.email, WRONG) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 12
    other = await Person().with_password(guarded)
    assert (await sign_in_from(guarded, HOME, other.email)).status_code == 200, "another account may sign in"


async def test_unknown_account_has_the_same_limits(guarded: httpx.AsyncClient) -> None:
    nobody = f"{uuid4()}@example.com"
    assert await guesses_of_strangers(guarded, nobody) == [401] * 3 + [429] * 9


async def waits_of(limiter: RateLimiter) -> list[float]:
    """The wait after each of 41 failures of one account at one address."""
    limits = SignInLimits(limiter=limiter, per_address=RateLimit(1000, 1), per_account=RateLimit(1000, 1))
    email, waits = f"{uuid4()}@example.com", list[float]()
    for _ in range(41):
        await limits.count_failure(email, HOME)
        refused = await limits.wait_seconds(email, HOME)
        waits.append(refused or 0)
    return waits


@pytest.mark.parametrize("redis", ["up", "away"])
async def test_each_failure_makes_the_wait_longer(parts: Parts, redis: str) -> None:
    away = RedisClient("redis://127.0.0.1:1")
    limiter = RateLimiter(parts.redis if redis == "up" else away, key=b"a key")
    waits = await waits_of(limiter)
    await away.close()
    assert waits[:4] == [0] * 4
    assert 0 < waits[4] <= 12
    assert 60 < waits[14] <= 240
    assert 600 < waits[39] <= 2160
    assert max(waits) <= 2160, "the longest wait has a limit"
