"""Sockets that are refused or closed again, each with its reason."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from catraca.domains.notifications.sockets import hub, service
from catraca.domains.notifications.sockets.routes import REFUSED
from catraca.domains.notifications.sockets.session import ENDED
from catraca.platform.http.server import ServerLimits
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.notifications.devices import Device, LiveServer, opened, refusal
from tests.domains.notifications.wire import answer_to, head, wire_to
from tests.domains.people.person import Person
from tests.domains.rides.desk import Desk
from tests.servers import on_one_stack, until
from tests.support.http import served

pytestmark = on_one_stack


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep often, so that expired tokens are found soon."""
    monkeypatch.setattr(hub, "SWEEP_SECONDS", 0.05)


async def connects(url: str, headers: dict[str, str], query: str = "") -> bool:
    async with opened(url, headers, query=query) as device:
        return await device.is_silent()


FORGED = [
    "https://evil.example",
    "null",
    "",
    "{own}.evil.example",
    "http://evil.example/{place}",
    "http://{place}@evil.example",
    "http://ana@{place}",
    "http://{place}/",
    "http://{place}:80",
    "ftp://{place}",
    "{place}",
    "http://[",
    "http://",
]


@pytest.mark.parametrize("origin", FORGED)
async def test_page_of_another_site_is_refused(live_server: LiveServer, origin: str) -> None:
    place = f"127.0.0.1:{live_server.served.port}"
    forged = origin.format(place=place, own=f"http://{place}")
    assert await refusal(live_server.url, bearer() | {"origin": forged}) == (403, "origin_refused")


async def test_own_pages_and_programs_are_admitted(live_server: LiveServer) -> None:
    place = f"127.0.0.1:{live_server.served.port}"
    for origin in (f"http://{place}", f"https://{place}", f"HTTP://{place}"):
        assert await connects(live_server.url, bearer() | {"origin": origin})
    assert await connects(live_server.url, bearer())


async def test_only_configured_origins_are_admitted(parts: Parts) -> None:
    async with served(parts, cors_origins=["https://app.example"]) as here:
        url = f"http://127.0.0.1:{here.port}"
        assert await connects(url, bearer() | {"origin": "https://app.example"})
        for other in ("http://app.example", "https://app.example:8443", "https://app.example.evil.example"):
            assert await refusal(url, bearer() | {"origin": other}) == (403, "origin_refused")
    async with served(parts, cors_origins=["*"]) as here:
        assert await connects(f"http://127.0.0.1:{here.port}", bearer() | {"origin": "https://app.example"})


async def test_two_origins_or_no_host_are_refused(live_server: LiveServer) -> None:
    token = f"Authorization: {bearer()['authorization']}"
    own = "Origin: http://catraca.test"
    assert (await answer_to(live_server.served.port, head(token, own))).status == 101
    for second in (own, "Origin: https://evil.example"):
        assert (await answer_to(live_server.served.port, head(token, own, second))).status in (400, 403)
    for origin in ("null", "http://", ""):
        answer = await answer_to(live_server.served.port, head(token, f"Origin: {origin}", host=""))
        assert answer.status in (400, 403)


async def test_ticket_works_once(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    ticket = await live_server.ticket(ana)
    await live_server.notify_user(ana, 1)
    async with opened(live_server.url, query=f"ticket={ticket}&since=0") as device:
        assert await device.seqs(1) == [1]
    assert await refusal(live_server.url, query=f"ticket={ticket}") == (401, "ticket_invalid")


async def test_concurrent_uses_of_a_ticket_admit_one(live_server: LiveServer) -> None:
    ticket = await live_server.ticket(await live_server.newcomer())

    async def connect() -> bool:
        try:
            return await connects(live_server.url, {}, f"ticket={ticket}")
        except InvalidStatus:
            return False

    assert sum(await asyncio.gather(*(connect() for _ in range(10)))) == 1


async def test_refused_origin_does_not_use_the_ticket(live_server: LiveServer) -> None:
    ticket = await live_server.ticket(await live_server.newcomer())
    evil = {"origin": "https://evil.example"}
    assert await refusal(live_server.url, evil, query=f"ticket={ticket}") == (403, "origin_refused")
    assert await refusal(live_server.url, query=f"ticket={ticket}&since=x") == (422, "request_invalid")
    assert await connects(live_server.url, {}, f"ticket={ticket}")


@pytest.mark.parametrize("ticket", ["x", "%00", "%ff%fe", "a" * 4000, "' OR true", "%F0%9F%8E%AB"])
async def test_unknown_ticket_is_refused(live_server: LiveServer, ticket: str) -> None:
    query = f"ticket={ticket.replace(' ', '%20')}"
    assert await refusal(live_server.url, query=query) == (401, "ticket_invalid")


async def test_expired_ticket_is_refused(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    for column, code in (("expires_at", "ticket_invalid"), ("token_expires_at", "token_expired")):
        ticket = await live_server.ticket(ana)
        await live_server.sql(
            f"UPDATE ws_tickets SET {column} = clock_timestamp() - interval '1 s' WHERE user_id = $1", ana.id
        )
        assert await refusal(live_server.url, query=f"ticket={ticket}") == (401, code)


async def sign_out(live_server: LiveServer, user: Person) -> None:
    path = f"/v1/users/{user.id}/sign-out"
    answer = await live_server.api.post(path, headers=bearer("operator"))
    assert answer.status_code in (200, 204), answer.text


async def test_ticket_of_a_signed_out_user_is_refused(live_server: LiveServer) -> None:
    ana = await live_server.newcomer()
    tickets = [await live_server.ticket(ana) for _ in range(3)]
    await sign_out(live_server, ana)

    async def is_known() -> bool:
        return (await live_server.api.get("/v1/me", headers=ana.headers)).status_code == 401

    await until(is_known)
    for ticket in tickets:
        assert await refusal(live_server.url, query=f"ticket={ticket}") == (401, "token_revoked")


async def test_invalid_tokens_are_refused(live_server: LiveServer) -> None:
    assert await refusal(live_server.url) == (401, "unauthenticated")
    assert await refusal(live_server.url, {"authorization": "Bearer nonsense"}) == (401, "token_invalid")
    over = bearer(lifetime=timedelta(seconds=-1))
    assert await refusal(live_server.url, over) == (401, "token_expired")
    ticket = await live_server.ticket(await live_server.newcomer())
    assert await refusal(live_server.url, over, query=f"ticket={ticket}") == (401, "token_expired")
    token = f"Authorization: {bearer()['authorization']}"
    assert (await answer_to(live_server.served.port, head(token, token))).status == 401


async def test_unauthenticated_attempts_are_rate_limited(parts: Parts) -> None:
    async with served(parts, rate_limit_anonymous="3/minute", trusted_proxies=[]) as here:
        url = f"http://127.0.0.1:{here.port}"
        found = [
            await refusal(url),
            await refusal(url, query="ticket=nonsense"),
            await refusal(url, {"authorization": "Bearer nonsense"}),
            await refusal(url, {"authorization": "Bearer nonsense"}),
            await refusal(url, query="ticket=nonsense"),
        ]
        assert [status for status, _ in found] == [401, 401, 401, 429, 429]
        assert await connects(url, bearer()), "callers with a valid token are counted separately"


async def test_sockets_count_in_the_callers_rate_limit(parts: Parts) -> None:
    async with served(parts, rate_limit_principal="3/minute") as here, here.client() as client:
        url, ana = f"http://127.0.0.1:{here.port}", Person()
        given = await client.post("/v1/ws/ticket", headers=ana.headers)
        assert await connects(url, ana.headers)
        assert await connects(url, {}, f"ticket={given.json()['ticket']}")
        assert await refusal(url, ana.headers) == (429, "too_many_requests")


@pytest.mark.parametrize("since", ["-1", "abc", str(10**30), str(2**53), "", "1.0", "%201", "%D9%A3", "1e3"])
async def test_invalid_since_is_refused(live_server: LiveServer, since: str) -> None:
    assert await refusal(live_server.url, bearer(), query=f"since={since}") == (422, "request_invalid")


async def test_socket_ends_with_its_token(live_server: LiveServer) -> None:
    ended = ENDED.labels("token_expired")._value.get()
    for seconds in (1, 4, 16):
        with suppress(InvalidStatus):  # on a busy machine the token may expire before the socket opens
            async with opened(live_server.url, bearer(lifetime=timedelta(seconds=seconds))) as device:
                assert await device.closed() == (4401, "token_expired")
            break
    assert ENDED.labels("token_expired")._value.get() == ended + 1


async def test_sockets_of_signed_out_or_erased_users_close(live_server: LiveServer) -> None:
    for by_ticket in (False, True):
        ana, bia = await live_server.newcomer(), await live_server.newcomer()
        query = f"ticket={await live_server.ticket(ana)}" if by_ticket else ""
        own = opened(live_server.url, None if by_ticket else ana.headers, query=query)
        async with own as device, live_server.device(bia) as other:
            await sign_out(live_server, ana)
            assert await device.closed() == (4401, "token_revoked")
            assert await other.is_silent()
    cai = await live_server.newcomer()
    async with live_server.device(cai) as device:
        assert (await live_server.api.delete("/v1/me", headers=cai.headers)).status_code == 204
        assert await device.closed() == (4401, "token_revoked")


async def test_oldest_socket_closes_beyond_the_maximum(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MAX_SOCKETS_PER_USER", 2)
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    async with (
        live_server.device(bia) as other,
        live_server.device(ana) as first,
        live_server.device(ana) as second,
    ):
        async with live_server.device(ana) as third:
            assert await first.closed() == (4409, "too_many_sockets")
            await live_server.notify_user(ana, 1)
            for device in (second, third):
                assert await device.seqs(1) == [1]
        assert await other.is_silent()
    assert not live_server.hub._sessions.get(ana.id)


async def test_concurrent_sockets_stay_within_the_maximum(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MAX_SOCKETS_PER_USER", 3)
    ana = await live_server.newcomer()

    async def stay() -> str:
        try:
            async with live_server.device(ana) as device:
                return (await device.closed())[1]
        except ConnectionClosed as ended:  # before the greeting
            return ended.rcvd.reason if ended.rcvd else ""

    staying = [asyncio.create_task(stay()) for _ in range(9)]
    await until(lambda: sum(one.done() for one in staying) == 6)
    assert {one.result() for one in staying if one.done()} == {"too_many_sockets"}
    assert len(live_server.hub._sessions[ana.id]) == 3
    for one in staying:
        one.cancel()
    await asyncio.gather(*staying, return_exceptions=True)


async def code_of(device: Device, kind: str, data: Any) -> str:
    answer = await device.ask(kind, data)
    assert answer["type"] == "error"
    return answer["data"]["code"]


async def test_ride_of_another_user_cannot_be_followed(live_server: LiveServer) -> None:
    desk = Desk(live_server.api, live_server.database)
    passenger, stranger = await live_server.newcomer(), await live_server.newcomer()
    ride_id = {"ride_id": str(await desk.request(passenger.id))}
    async with live_server.device(stranger) as device:
        assert await code_of(device, "subscribe", ride_id) == "ride_not_found"
        assert await code_of(device, "subscribe", {"ride_id": str(uuid4())}) == "ride_not_found"
        assert (await device.ask("unsubscribe", ride_id))["type"] == "reply"
    for allowed in (passenger.headers, bearer("operator")):
        async with opened(live_server.url, allowed) as device:
            assert (await device.ask("subscribe", ride_id))["data"] == ride_id


async def test_subscriptions_have_a_limit(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_FOLLOWED_RIDES", 1)
    desk = Desk(live_server.api, live_server.database)
    first, second = [{"ride_id": str(await desk.request())} for _ in range(2)]
    async with opened(live_server.url, bearer("operator")) as device:
        assert (await device.ask("subscribe", first))["type"] == "reply"
        assert (await device.ask("subscribe", first))["type"] == "reply", "a repeat does not count"
        assert await code_of(device, "subscribe", second) == "too_many_subscriptions"
        await device.ask("unsubscribe", first)
        assert (await device.ask("subscribe", second))["type"] == "reply"
    assert not live_server.hub._followers


async def test_passenger_cannot_send_pings(live_server: LiveServer) -> None:
    async with opened(live_server.url, bearer()) as device:
        assert await code_of(device, "location.ping", {"lat": 1, "lng": 2}) == "forbidden"
        assert await code_of(device, "location.status", {"online": True}) == "forbidden"


async def test_driver_sends_status_and_pings_over_the_socket(live_server: LiveServer) -> None:
    driver = await live_server.newcomer("driver")
    async with live_server.device(driver) as device:
        place = {"lat": -12.97, "lng": -38.5}
        assert await code_of(device, "location.ping", place) == "driver_offline"
        online = await device.ask("location.status", {"online": True, "position": place})
        assert (online["type"], online["data"]["online"]) == ("reply", True)
        assert (await device.ask("location.ping", place))["type"] == "reply"
        assert (await device.ask("location.ping", {"pings": [place]}))["type"] == "reply"
        other_name = {"lat": -12.97, "lon": -38.5}
        assert (await device.ask("location.ping", {"pings": [other_name]}))["type"] == "reply"
        assert (await device.ask("location.ping", place | other_name))["type"] == "error"
        offline = await device.ask("location.status", {"online": False})
        assert offline["data"]["online"] is False


async def test_malformed_handshakes_are_refused_at_once(live_server: LiveServer) -> None:
    token = f"Authorization: {bearer()['authorization']}"
    port = live_server.served.port
    long = "x" * 8190
    assert (await answer_to(port, head(token, target=f"/v1/ws?since=1&{long}"))).status == 414
    assert (await answer_to(port, head(token, target=f"/v1/ws?{long[:8178]}"))).status in (101, 414)
    assert (await answer_to(port, head(token, f"X-Long: {long}"))).status == 431
    assert (await answer_to(port, head(token, f"X-Long: {long * 3}"))).status == 431
    assert (await answer_to(port, head(token, *(f"X-{n}: 1" for n in range(120))))).status == 431
    for line in (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b"Sec-WebSocket-Version: 13\r\n"):
        assert (await answer_to(port, head(token).replace(line, b""))).status in (400, 426)
    assert (await answer_to(port, head(token, target="/v1/rides"))).status in (403, 404)
    assert (await live_server.api.get("/v1/ws", headers=bearer())).status_code in (404, 426)


async def test_unfinished_handshake_is_cut_off(parts: Parts) -> None:
    limits = ServerLimits(head_seconds=0.2, linger_seconds=0.2)
    async with served(parts, limits=limits) as here, wire_to(here.port) as wire:
        wire.send(head()[:-2])
        await wire.closed_by_server()


async def test_refusals_are_counted_by_code(live_server: LiveServer) -> None:
    before = REFUSED.labels("origin_refused")._value.get()
    await refusal(live_server.url, bearer() | {"origin": "https://evil.example"})
    assert REFUSED.labels("origin_refused")._value.get() == before + 1
