"""Places: a few requests of one person run at a time, others wait in order and leave with their clients."""

import asyncio
from uuid import uuid4

import pytest
from fastapi import APIRouter
from websockets.asyncio.client import connect

from catraca.platform.errors import TooManyAtOnce
from catraca.platform.http.caller import Caller
from catraca.platform.http.places import Places
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import on_one_stack, until
from tests.support.http import line_to, served


def places(count: int = 1, most_waiting: int = 2) -> Places:
    return Places("person", count=count, most_waiting=most_waiting, refusal=TooManyAtOnce)


async def test_waiting_callers_get_places_in_order() -> None:
    line, order = places(most_waiting=5), list[int]()

    async def visit(number: int) -> None:
        await line.take()
        order.append(number)
        await asyncio.sleep(0)
        line.release()

    await asyncio.gather(*(visit(number) for number in range(6)))
    assert order == list(range(6))
    assert line.unused


async def test_callers_beyond_the_line_are_refused() -> None:
    line = places()
    await line.take()
    waiting = [asyncio.create_task(line.take()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyAtOnce):
        await line.take()
    for one in waiting:
        line.release()
        await one
    line.release()
    assert line.unused


@pytest.mark.parametrize("is_served", [False, True], ids=["waiting", "served at the same time"])
async def test_canceled_caller_leaves_its_place(is_served: bool) -> None:
    line = places()
    await line.take()
    canceled, next_one = (asyncio.create_task(line.take()) for _ in range(2))
    await asyncio.sleep(0)
    if is_served:
        line.release()
    canceled.cancel()
    await asyncio.gather(canceled, return_exceptions=True)
    if not is_served:
        line.release()
    await next_one
    line.release()
    assert line.unused


class Slow:
    """A route that waits, and the requests inside it."""

    def __init__(self) -> None:
        self.router = APIRouter()
        self.router.add_api_route("/slow", self.wait, methods=["POST"])
        self.inside = 0
        self.total = 0
        self.finish = asyncio.Event()

    async def wait(self, caller: Caller, body: dict[str, str] | None = None) -> int:
        self.inside += 1
        self.total += 1
        await self.finish.wait()
        self.inside -= 1
        return len(body or {})


def post(role: str, sub: object, body: bytes = b'{"a": "b"}') -> bytes:
    token = bearer(role, sub)["authorization"]  # type: ignore[arg-type]
    head = f"POST /slow HTTP/1.1\r\nHost: t\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


@on_one_stack
async def test_request_of_a_gone_client_leaves_the_line(parts: Parts) -> None:
    slow, person = Slow(), uuid4()
    async with served(parts, [slow.router], database_connections=2) as to, line_to(to) as first:
        first.send(post("passenger", person))
        await until(lambda: slow.inside == 1)
        async with line_to(to) as gone:
            gone.send(post("passenger", person))
            await until(lambda: len(to.server.server_state.tasks) == 2)
        await until(lambda: len(to.server.server_state.tasks) == 1)
        async with line_to(to) as next_one:
            next_one.send(post("passenger", person))
            await until(lambda: len(to.server.server_state.tasks) == 2)
            slow.finish.set()
            # The body was received while the request waited.
            assert [(await line.answer()).body for line in (first, next_one)] == [b"1", b"1"]
        assert slow.total == 2


@on_one_stack
async def test_services_run_any_number_at_once(parts: Parts) -> None:
    slow, service = Slow(), uuid4()
    api = served(parts, [slow.router], database_connections=2)
    async with api as to, line_to(to) as one, line_to(to) as two:
        for line in (one, two):
            line.send(post("service", service))
        await until(lambda: slow.inside == 2)
        slow.finish.set()
        assert [(await line.answer()).status for line in (one, two)] == [200, 200]


@on_one_stack
async def test_open_socket_takes_no_place(parts: Parts) -> None:
    slow, person = Slow(), uuid4()
    async with served(parts, [slow.router], database_connections=2) as to:
        address, headers = f"ws://127.0.0.1:{to.port}/v1/ws", bearer("passenger", person)
        async with connect(address, additional_headers=headers), line_to(to) as line:
            slow.finish.set()
            line.send(post("passenger", person))
            assert (await line.answer()).status == 200
