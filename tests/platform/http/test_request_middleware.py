"""Every request has an id, limits, headers, one log line, metrics, and a response to every error."""

import asyncio
import re
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from structlog.testing import capture_logs

from catraca.platform.database import Database
from catraca.platform.http.caller import Caller
from catraca.platform.http.request_middleware import RequestLimits, RequestMiddleware
from catraca.platform.http.route import OpenDb, UnitOfWork
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import until
from tests.support.http import Served, line_to, served

HOST = b"Host: catraca.test\r\n"
HASTY = RequestLimits(body_bytes=2000, body_seconds=0.5, answer_seconds=0.5)

router = APIRouter(prefix="/envelope")
changing = APIRouter(prefix="/envelope", route_class=UnitOfWork)
gates: dict[UUID, asyncio.Event] = {}
leavings: list[str] = []


@router.post("/echo")
async def echo(request: Request) -> int:
    return len(await request.body())


@router.get("/slow")
async def slow() -> None:
    await asyncio.sleep(60)


@router.get("/timeout")
async def own_timeout() -> None:
    raise TimeoutError


@router.get("/broken")
async def broken() -> None:
    raise LookupError("a secret that must not be told")


@router.get("/late/{gate}")
async def late(gate: UUID) -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first "
        await gates[gate].wait()
        yield b"last"

    return StreamingResponse(pieces())


@router.get("/half")
async def half() -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first "
        raise LookupError

    return StreamingResponse(pieces())


@changing.put("/effects/{gate}")
async def make_effect(gate: UUID, db: OpenDb, caller: Caller) -> None:
    """Two changes with the gate between them: committed together or not at all."""
    await db.execute("INSERT INTO envelope_effects VALUES ($1, 'first')", gate)
    leavings.append(f"in {gate}")
    await gates[gate].wait()
    await db.execute("INSERT INTO envelope_effects VALUES ($1, 'second')", gate)


@pytest.fixture(scope="module")
async def _table(parts: Parts) -> None:
    async with parts.database.transaction() as db:
        await db.execute("CREATE TABLE IF NOT EXISTS envelope_effects (gate uuid, part text)")


@pytest.fixture(scope="module")
async def server(parts: Parts, _table: None) -> AsyncIterator[Served]:
    async with served(parts, [router, changing]) as server:
        yield server


@pytest.fixture
async def client(server: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture(scope="module")
async def hasty(parts: Parts, _table: None) -> AsyncIterator[Served]:
    async with served(parts, [router, changing], request_limits=HASTY) as server:
        yield server


def figure(name: str, **labels: str) -> float:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry.get_sample_value(name, labels) or 0.0


def figures() -> str:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry).decode()


async def test_every_response_has_an_id_and_security_headers(client: httpx.AsyncClient) -> None:
    for path in ("/livez", "/nowhere", "/envelope/broken", "/v1/me"):
        with capture_logs():
            answer = await client.get(path)
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "strict-transport-security" not in answer.headers
        assert "server" not in answer.headers
    first, second = [(await client.get("/livez")).headers["x-request-id"] for _ in range(2)]
    assert first != second


async def test_clients_request_id_is_kept_if_it_can_be_logged(client: httpx.AsyncClient) -> None:
    answer = await client.get("/nowhere", headers={"x-request-id": "order-2031.05_30"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "order-2031.05_30"
    for unfit in ("short", "a" * 65, "with space 1", 'quote"12345', "é" * 10):
        answer = await client.get("/nowhere", headers={"x-request-id": unfit.encode()})
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_unexpected_error_is_500_without_its_message(client: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        answer = await client.get("/envelope/broken")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "secret" not in answer.text
    assert [entry["event"] for entry in logs] == ["request_failed", "request"]


async def test_slow_work_is_stopped_with_503(hasty: Served) -> None:
    async with hasty.client() as client:
        answer = await client.get("/envelope/slow")
        assert answer.status_code == 503
        assert answer.json()["code"] == "answer_too_slow"
        assert answer.headers["retry-after"] == "2"
        with capture_logs():  # a TimeoutError of the work itself is an unexpected error
            answer = await client.get("/envelope/timeout")
        assert answer.json()["code"] == "internal_error"


async def test_work_stopped_at_its_limit_is_rolled_back(hasty: Served, database: Database) -> None:
    gate = uuid4()
    gates[gate] = asyncio.Event()
    async with hasty.client() as client:
        answer = await client.put(f"/envelope/effects/{gate}", headers=bearer())
    assert answer.json()["code"] == "answer_too_slow"
    assert await parts_of(database, gate) == []


async def test_slow_body_is_408(hasty: Served) -> None:
    head = b"POST /envelope/echo HTTP/1.1\r\n" + HOST + b"Content-Length: 2000\r\n\r\n"
    async with line_to(hasty) as line:
        line.send(head, b"abc")
        answer = await line.answer()
        assert (answer.status, answer.problem()["code"]) == (408, "request_too_slow")
    async with line_to(hasty) as line:
        line.send(head)

        async def drip() -> None:
            while True:
                line.send(b"a")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert (await line.answer()).status == 408
        dripping.cancel()


async def test_body_over_the_limit_is_413(hasty: Served) -> None:
    async with hasty.client() as client:
        assert (await client.post("/envelope/echo", content=b"a" * 2000)).json() == 2000
        answer = await client.post("/envelope/echo", content=b"a" * 2001)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert answer.json()["limit_bytes"] == 2000

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield b"a" * 500

        answer = await client.post("/envelope/echo", content=pieces())
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_wait_for_disconnect_is_not_a_slow_body(parts: Parts) -> None:
    gate = uuid4()
    gates[gate] = asyncio.Event()
    limits = RequestLimits(body_seconds=0.1, answer_seconds=30)
    async with (
        served(parts, [router], request_limits=limits) as server,
        server.client() as client,
        client.stream("GET", f"/envelope/late/{gate}") as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"first "
        await asyncio.sleep(0.4)  # several times the limit of a body
        gates[gate].set()
        assert await anext(pieces) == b"last"


async def test_failed_response_is_cut_not_ended(client: httpx.AsyncClient) -> None:
    with capture_logs(), pytest.raises(httpx.RemoteProtocolError):
        await client.get("/envelope/half")


async def parts_of(database: Database, gate: UUID) -> list[str]:
    async with database.connection() as db:
        rows = await db.fetch("SELECT part FROM envelope_effects WHERE gate = $1 ORDER BY part", gate)
    return [row["part"] for row in rows]


async def test_disconnect_during_the_work_does_not_stop_it(server: Served, database: Database) -> None:
    gate = uuid4()
    gates[gate] = asyncio.Event()
    token = bearer()["authorization"].encode()
    failures = answers_with_500()
    async with line_to(server) as line:
        line.send(b"PUT /envelope/effects/%s HTTP/1.1\r\n" % str(gate).encode(), HOST)
        line.send(b"Authorization: ", token, b"\r\nContent-Length: 0\r\n\r\n")
        await until(lambda: f"in {gate}" in leavings)
    assert await parts_of(database, gate) == []
    gates[gate].set()

    async def done() -> bool:
        return await parts_of(database, gate) == ["first", "second"]

    await until(done)
    assert answers_with_500() == failures


def answers_with_500() -> float:
    counts = re.findall(r'^catraca_http_requests_total{.*status="500"} (\S+)$', figures(), re.MULTILINE)
    return sum(float(count) for count in counts)


async def test_disconnect_before_the_body_has_no_effect_and_no_error(
    server: Served, database: Database
) -> None:
    gate = uuid4()
    gates[gate] = asyncio.Event()
    gates[gate].set()
    token = bearer()["authorization"].encode()
    route = {"method": "PUT", "route": "/envelope/effects/{gate}"}
    before = figure("catraca_http_requests_total", **route, status="499")
    with capture_logs() as logs:
        async with line_to(server) as line:
            line.send(b"PUT /envelope/effects/%s HTTP/1.1\r\n" % str(gate).encode(), HOST)
            line.send(b"Authorization: ", token, b"\r\nContent-Length: 100\r\n\r\nabc")
            await until(lambda: server.server.server_state.tasks)
        await until(lambda: figure("catraca_http_requests_total", **route, status="499") == before + 1)
    assert [entry["event"] for entry in logs] == ["request"]
    assert await parts_of(database, gate) == []


async def test_metric_labels_are_routes_and_known_methods(
    client: httpx.AsyncClient,
) -> None:
    marker = uuid4().hex
    await client.get(f"/{marker}")
    await client.get(f"/v1/{marker}/x")
    await client.get(f"/v1/users/{marker}")
    await client.request("PROPFIND", "/livez")
    before = figure("catraca_http_requests_total", method="GET", route="/livez", status="200")
    await client.get("/livez")
    assert figure("catraca_http_requests_total", method="GET", route="/livez", status="200") == before + 1
    text = figures()
    assert marker not in text
    assert "PROPFIND" not in text
    assert 'method="other"' in text
    assert 'route="unknown",status="404"' in text


async def test_successful_reads_are_not_logged_and_others_are(client: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        await client.get("/livez")
        await client.get("/nowhere", headers={"x-request-id": "find-me-again"})
        await client.post("/envelope/echo", content=b"")
    assert [(entry["event"], entry["status"]) for entry in logs] == [("request", 404), ("request", 200)]


async def test_websocket_has_a_request_id() -> None:
    seen: dict[str, str] = {}

    async def app(scope: dict, receive: object, send: object) -> None:
        seen.update(scope["state"])

    scope = {"type": "websocket", "headers": [(b"x-request-id", b"socket-number-1")]}
    await RequestMiddleware(app, limits=RequestLimits())(scope, None, None)  # type: ignore[arg-type]
    assert seen == {"request_id": "socket-number-1"}
