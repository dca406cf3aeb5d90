"""Calls over a bad network: retried until there is a response, and executed once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from catraca.client import Client, Refused, Unreachable
from catraca.client.pauses import Pauses
from catraca.platform.http.route import Staged, make_router
from catraca.roles.parts import Parts
from tests.client.people import PRACA_DA_SE, person
from tests.client.proxy import Proxy
from tests.servers import on_one_stack
from tests.support.http import served

pytestmark = on_one_stack


async def test_ride_request_with_lost_response_makes_one_ride(proxy: Proxy) -> None:
    async with person(proxy.url, "passenger") as passenger:
        proxy.swallow = 3
        ride = await passenger.rides.request(**PRACA_DA_SE)
        assert proxy.swallow == 0
        assert [one.ride_id for one in (await passenger.rides.page()).rides] == [ride.ride_id]


async def test_every_ride_change_survives_a_lost_response(proxy: Proxy) -> None:
    async with (
        person(proxy.url, "passenger") as passenger,
        person(proxy.url, "driver") as driver,
        person(proxy.url, "operator") as operator,
    ):
        ride_id = (await passenger.rides.request(**PRACA_DA_SE)).ride_id
        driver_id = await driver.own_id()
        proxy.swallow = 1
        made = await operator.rides.offer(ride_id, [driver_id], ttl_seconds=60)
        assert (len(made.offers), made.skipped) == (1, [])
        proxy.swallow = 1
        assert (await driver.rides.accept(ride_id)).driver_id == driver_id
        for move in (driver.rides.arrive, driver.rides.start):
            proxy.swallow = 1
            await move(ride_id)
        proxy.swallow = 1
        assert (await driver.rides.complete(ride_id, distance_meters=4200)).status == "COMPLETED"
        assert proxy.swallow == 0


async def test_response_cut_in_the_middle_is_retried(proxy: Proxy) -> None:
    proxy.lifetimes = [0, 1, 40, 200, 300]
    async with person(proxy.url, "passenger") as passenger:
        await passenger.rides.request(**PRACA_DA_SE)
        assert len((await passenger.rides.page()).rides) == 1
    assert proxy.lifetimes == []


async def test_unreachable_server_raises_after_the_deadline(proxy: Proxy) -> None:
    proxy.closed = True
    async with person(proxy.url, "passenger", deadline_seconds=0.5) as passenger:
        with pytest.raises(Unreachable) as raised:
            await passenger.rides.request(**PRACA_DA_SE)
    assert "POST /v1/rides" in str(raised.value)
    assert proxy.connections > 1


@asynccontextmanager
async def refusing(parts: Parts, status: int, code: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client of a route that refuses twice and then succeeds, and the idempotency keys it received."""
    router, keys = make_router(prefix="/v1", route_class=Staged), []

    @router.post("/refuse-twice")
    async def refuse_twice(request: Request) -> Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) > 2:
            return JSONResponse({"done": True})
        body = {"code": code, "detail": "Not now."} if code else {}
        return JSONResponse(body, status, {"retry-after": "7"}, "application/problem+json")

    async with (
        served(parts, [router]) as server,
        person(f"http://127.0.0.1:{server.port}", "passenger") as caller,
    ):
        yield caller, keys


async def call(caller: Client, **how: str) -> dict[str, bool]:
    return await caller._http.request("POST", "/v1/refuse-twice", dict[str, bool], **how)


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "too_many_requests"), (503, "busy"), (502, ""), (504, ""), (409, "idempotency_key_in_use")],
)
async def test_temporary_refusal_is_retried_after_the_given_time(
    parts: Parts, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def note(_pauses: Pauses, *, at_least: float = 0.0) -> float:
        waits.append(at_least)
        return 0.0

    monkeypatch.setattr(Pauses, "next_seconds", note)
    async with refusing(parts, status, code) as (caller, keys):
        assert await call(caller) == {"done": True}
    assert waits == [7.0, 7.0]
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_final_refusal_is_raised_at_once(parts: Parts) -> None:
    async with refusing(parts, 409, "ride_already_open") as (caller, keys):
        with pytest.raises(Refused) as raised:
            await call(caller)
    assert (raised.value.status, raised.value.code, len(keys)) == (409, "ride_already_open", 1)


async def test_different_calls_have_different_keys(parts: Parts) -> None:
    async with refusing(parts, 503, "busy") as (caller, keys):
        keys += ["", ""]  # the route does not refuse any more
        for _ in range(3):
            await call(caller)
        await call(caller, key="mine")
    assert len(set(keys[2:])) == 4
    assert keys[-1] == "mine"
