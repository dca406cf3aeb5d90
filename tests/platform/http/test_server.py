"""Limits before there is a request: malformed, slow or endless input is refused, never a 500."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from fastapi import APIRouter, Request, Response

from catraca.platform.http.server import ServerLimits
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import on_one_stack, until
from tests.support.http import Answer, Served, ask, line_to, served

pytestmark = on_one_stack

HOST = b"Host: catraca.test\r\n"
GET = b"GET /livez HTTP/1.1\r\n" + HOST
POST = b"POST /probe HTTP/1.1\r\n" + HOST
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"\r\n"

router = APIRouter()


@router.api_route("/probe", methods=["GET", "POST"])
async def probe(request: Request) -> dict[str, object]:
    body = await request.body()
    return {"bytes": len(body), "headers": sorted(request.headers.keys())}


@router.get("/large")
async def large() -> Response:
    return Response(bytes(20_000_000))


@pytest.fixture(scope="module")
async def server(parts: Parts) -> AsyncIterator[Served]:
    async with served(parts, [router]) as server:
        yield server


def hasty(**limits: float) -> ServerLimits:
    short = {"head_seconds": 0.3, "idle_seconds": 0.3, "linger_seconds": 0.3}
    return ServerLimits(**{**short, **limits})  # type: ignore[arg-type]


def is_refusal(answer: Answer, status: int, code: str) -> bool:
    assert answer.status == status, answer
    assert answer.problem()["code"] == code
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"
    return True


MALFORMED = {
    "a length that is no number": POST + b"Content-Length: abc\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "a length beyond counting": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "an empty length": POST + b"Content-Length: \r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and a length": POST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "a coding that is nearly chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, then something else": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "compressed chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /probe HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "a broken chunk": POST + CHUNKED + b"\r\nZZ\r\nhello\r\n0\r\n\r\n",
    "a folded header": GET + b"X-A: 1\r\n 2\r\n\r\n",
    "a header without a name": GET + b": 1\r\n\r\n",
    "a header without a colon": GET + b"X-A\r\n\r\n",
    "NUL in a header": GET + b"X-A: a\0b\r\n\r\n",
    "a control character in a header": GET + b"X-A: a\x01b\r\n\r\n",
    "NUL in the address": b"GET /livez?\0 HTTP/1.1\r\n" + HOST + END,
    "raw UTF-8 in the address": "GET /é HTTP/1.1\r\n".encode() + HOST + END,
    "an address without a slash": b"GET livez HTTP/1.1\r\n" + HOST + END,
    "an absolute address without a path": b"GET http://catraca.test HTTP/1.1\r\n" + HOST + END,
    "an unknown method": b"BREW /livez HTTP/1.1\r\n" + HOST + END,
    "a method in small letters": b"get /livez HTTP/1.1\r\n" + HOST + END,
    "a tunnel": b"CONNECT catraca.test:443 HTTP/1.1\r\n" + HOST + END,
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "two hosts": GET + HOST + END,
    "no version": b"GET /livez\r\n\r\n",
    "HTTP/1.2": b"GET /livez HTTP/1.2\r\n" + HOST + END,
    "HTTP/2.0": b"GET /livez HTTP/2.0\r\n" + HOST + END,
    "HTTP/2 itself": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303"),
    "line feeds alone": b"GET /livez HTTP/1.1\nHost: catraca.test\n\n",
    "an upgrade that would swallow the body": POST
    + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_requests_are_refused_and_connection_closed(server: Served, name: str) -> None:
    async with line_to(server) as line:
        line.send(MALFORMED[name])
        assert is_refusal(await line.answer(), 400, "request_malformed")
        assert await line.closed_by_server() == b""


WELL_FORMED = {
    "HTTP/1.0 without a host": b"GET /probe HTTP/1.0\r\n\r\n",
    "an absolute address": b"GET http://catraca.test/probe HTTP/1.1\r\n" + HOST + END,
    "chunks with extensions": POST + JSON + CHUNKED + b"\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
    "an offer of another protocol": b"GET /probe HTTP/1.1\r\n" + HOST
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", WELL_FORMED)
async def test_unusual_but_valid_requests_are_served(server: Served, name: str) -> None:
    assert (await ask(server, WELL_FORMED[name])).status == 200


async def test_early_refusals_use_the_clients_language(server: Served) -> None:
    answer = await ask(server, b"GET /livez HTTP/1.1\r\nAccept-Language: en\r\n\r\n")
    assert "not a request" in str(answer.problem()["detail"])
    answer = await ask(server, b"GET /livez HTTP/1.1\r\nAccept-Language: pt\r\n\r\n")
    assert "Não foi possível" in str(answer.problem()["detail"])


async def test_urls_and_headers_have_a_limit(server: Served) -> None:
    long = b"a" * 9000
    assert is_refusal(await ask(server, b"GET /", long, b" HTTP/1.1\r\n", HOST, END), 414, "url_too_long")
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(101))
    assert is_refusal(await ask(server, GET, many, END), 431, "headers_too_large")
    large = b"X-A: " + b"a" * 8000 + END
    assert is_refusal(await ask(server, GET, large * 3, END), 431, "headers_too_large")
    assert (await ask(server, GET, large, END)).status == 200


@pytest.mark.parametrize("start", [b"GET /", GET + b"X-A: ", GET + b"X-"])
async def test_endless_requests_are_cut_off(server: Served, start: bytes) -> None:
    async with line_to(server) as line:
        line.send(start)
        for _ in range(64):
            line.send(b"a" * 1024)
            await asyncio.sleep(0)
        answer = await line.answer()
        assert answer.status in (414, 431)
        assert await line.closed_by_server() == b""


async def test_endless_trailers_are_cut_off(parts: Parts) -> None:
    limits = ServerLimits(message_bytes=100_000)
    async with served(parts, [router], limits=limits) as server, line_to(server) as line:
        line.send(POST, CHUNKED, b"\r\n0\r\nX-A: ")
        for _ in range(400):
            line.send(b"a" * 1024)
            await asyncio.sleep(0)
        assert await line.closed_by_server() == b""


async def test_trailers_do_not_become_headers(server: Served) -> None:
    answer = await ask(
        server, POST, JSON, CHUNKED, b"\r\n1\r\n1\r\n0\r\nAuthorization: Bearer x\r\nX-Late: 1\r\n\r\n"
    )
    assert answer.status == 200
    assert b"x-late" not in answer.body
    assert b"authorization" not in answer.body


@pytest.mark.parametrize(
    "said",
    [b"", b"\r\n", b"GET /liv", GET, GET + b"X-A: 1"],
    ids=["nothing", "a line", "half", "more", "most"],
)
async def test_connection_with_an_incomplete_head_is_closed(parts: Parts, said: bytes) -> None:
    async with served(parts, limits=hasty()) as server, line_to(server) as line:
        line.send(said)
        assert await line.closed_by_server() == b""


@pytest.mark.parametrize("said", [b"", b"\r\n", GET], ids=["nothing", "a line", "half a request"])
async def test_idle_connection_is_closed(parts: Parts, said: bytes) -> None:
    async with served(parts, limits=hasty()) as server, line_to(server) as line:
        line.send(GET, END)
        assert (await line.answer()).status == 200
        line.send(said)
        assert await line.closed_by_server() == b""


async def test_slow_head_within_the_limit_is_served(server: Served) -> None:
    async with line_to(server) as line:
        for byte in GET + END:
            line.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await line.answer()).status == 200


# Sent without its body, this request keeps its connection busy.
UNFINISHED = POST + JSON + b"Content-Length: 2\r\n\r\n"


async def test_connections_over_the_limit_are_refused_as_busy(parts: Parts) -> None:
    limits = ServerLimits(connections=2, linger_seconds=0.3)
    async with (
        served(parts, [router], limits=limits) as server,
        line_to(server) as one,
        line_to(server) as two,
    ):
        for line in (one, two):
            line.send(UNFINISHED)
        await until(lambda: len(server.server.server_state.tasks) == 2)
        async with line_to(server) as three:
            three.send(GET, END)
            answer = await three.answer()
            assert is_refusal(answer, 503, "busy")
            assert answer.headers["retry-after"] == "1"
            assert await three.closed_by_server() == b""
        one.send(b"{}", GET, END)
        assert [(await one.answer()).status for _ in range(2)] == [200, 200]
        await two.hang_up()
        await until(lambda: len(server.server.server_state.connections) == 1)
        assert (await ask(server, GET, END)).status == 200


async def test_full_server_closes_the_longest_idle_connection(parts: Parts) -> None:
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(served(parts, limits=ServerLimits(connections=3)))
        one, two, three = [await opened.enter_async_context(line_to(server)) for _ in range(3)]
        for line in (one, two, three, one):
            line.send(GET, END)
            assert (await line.answer()).status == 200
        four = await opened.enter_async_context(line_to(server))
        for line in (four, one, three):
            line.send(GET, END)
            assert (await line.answer()).status == 200
        assert await two.closed_by_server() == b""


async def test_pipelined_requests_are_answered_in_order(server: Served) -> None:
    async with line_to(server) as line:
        line.send(GET, END, b"GET /nowhere HTTP/1.1\r\n", HOST, END, GET, END)
        assert [(await line.answer()).status for _ in range(3)] == [200, 404, 200]


async def test_malformed_request_does_not_replace_an_earlier_response(server: Served) -> None:
    async with line_to(server) as line:
        line.send(GET, END, b"NONSENSE\r\n\r\n")
        assert (await line.answer()).status == 200
        assert await line.closed_by_server() == b""


async def test_continue_is_sent_only_if_the_body_is_read(parts: Parts) -> None:
    expecting = POST + JSON + b"Expect: 100-continue\r\n"
    patient = ServerLimits(head_seconds=1000, idle_seconds=1000)
    async with served(parts, [router], limits=patient) as server:
        async with line_to(server) as line:
            line.send(expecting, b"Content-Length: 5\r\n\r\n")
            assert (await line.answer()).status == 100
            line.send(b"hello")
            assert (await line.answer()).status == 200
        async with line_to(server) as line:
            line.send(expecting, b"Content-Length: 9000000\r\n\r\n")
            assert (await line.answer()).status == 413
            # The next bytes could be the body or another request.
            assert await line.closed_by_server() == b""


async def test_rest_of_a_refused_body_is_dropped(server: Served) -> None:
    async with line_to(server) as line:
        line.send(POST, JSON, b"Content-Length: 300000\r\n\r\n", b"a" * 100_000)
        answer = await line.answer()
        assert answer.status == 413
        assert answer.problem()["code"] == "body_too_large"
        line.send(b"a" * 200_000, GET, END)
        assert (await line.answer()).status == 200


async def test_endless_refused_body_is_cut_off(parts: Parts) -> None:
    limits = hasty(message_bytes=10**9)
    async with served(parts, [router], limits=limits) as server, line_to(server) as line:
        line.send(POST, JSON, b"Content-Length: 9000000\r\n\r\n")
        assert (await line.answer()).status == 413

        async def drip() -> None:
            while True:
                line.send(b"a")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        await line.closed_by_server()
        dripping.cancel()


@pytest.mark.parametrize("requests", [1, 20], ids=["one answer", "answer after answer"])
async def test_client_that_does_not_read_is_cut_off(parts: Parts, requests: int) -> None:
    async with served(parts, [router], limits=hasty(stall_seconds=0.3)) as server:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        with client:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\n%s\r\n" % HOST * requests)
            await until(lambda: server.server.server_state.connections)
            await until(lambda: not server.server.server_state.connections)
            await until(lambda: not server.server.server_state.tasks)


async def test_token_in_a_trailer_is_ignored(server: Served) -> None:
    token = bearer()["authorization"].encode()
    request = b"PATCH /v1/me HTTP/1.1\r\n" + HOST + JSON + CHUNKED
    answer = await ask(server, request, b"\r\n2\r\n{}\r\n0\r\nAuthorization: ", token, b"\r\n\r\n")
    assert answer.status == 401
