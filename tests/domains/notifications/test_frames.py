"""Hostile frames: too large, too many, not text, not JSON, or from a client that never reads."""

import asyncio
import socket

import msgspec
import pytest

from catraca.domains.notifications.sockets import routes
from catraca.platform.http import sockets
from catraca.platform.http.rate_limits import RateLimit
from catraca.platform.http.sockets import CUT_OFF
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.notifications.devices import LiveServer, open_live_server, opened
from tests.domains.notifications.wire import BINARY, CONTINUED, PING, TEXT, Wire, frame, wire_to
from tests.servers import on_one_stack, until
from tests.support.http import served

pytestmark = on_one_stack

MEGABYTE = 2**20


def cut_off(reason: str) -> float:
    return CUT_OFF.labels(reason)._value.get()


async def test_ten_megabyte_frame_is_closed_with_1009(live_server: LiveServer) -> None:
    before = cut_off("too_large")
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        pushing = asyncio.create_task(wire.push(frame(TEXT, b"x" * 10 * MEGABYTE)))
        assert (await wire.closed())[0] == 1009
        await pushing
    assert cut_off("too_large") == before + 1


async def pushed(wire: Wire, *frames: bytes, most: int) -> int:
    """Send frames until the server stops reading; return the bytes sent."""
    sent = 0
    while sent < most:
        for one in frames:
            if not await wire.push(one):
                return sent
            sent += len(one)
    return sent


@pytest.mark.parametrize("size", [0, 1, 1000, 16_000], ids=lambda size: f"fragments of {size} bytes")
async def test_endless_message_is_refused(live_server: LiveServer, size: int) -> None:
    """In fragments below the limit; empty fragments never reach the size limit."""
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        wire.send(frame(TEXT, b"x", fin=False))
        pieces = frame(CONTINUED, b"x" * size, fin=False) * (1 + 4096 // (size + 1))
        pushing = asyncio.create_task(pushed(wire, pieces, most=10 * MEGABYTE))
        code, _ = await wire.closed()
        assert code == 1009
        await pushing


async def test_trickling_message_has_the_same_size_limit(live_server: LiveServer) -> None:
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        closing = asyncio.create_task(wire.closed())
        wire.send(frame(TEXT, b"x", fin=False))
        for _ in range(1000):
            await wire.push(frame(CONTINUED, b"x" * 100, fin=False))
            await asyncio.sleep(0)
        assert (await closing)[0] == 1009


async def test_huge_declared_length_is_refused_at_once(live_server: LiveServer) -> None:
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        wire.send(b"\x81\xff" + b"\x7f" + b"\xff" * 7 + b"\0\0\0\0")
        assert (await wire.closed())[0] == 1009


@pytest.mark.parametrize(
    ("bytes_", "code"),
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"\xed\xa0\x80"), 1007),
        (frame(TEXT, "é".encode()[:1]), 1007),
        (frame(BINARY, b"{}"), 1003),
        (frame(TEXT, b"{}", first_bits=0x40), 1002),
        (frame(CONTINUED, b"{}"), 1002),
        (frame(3, b"{}"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (b"\x81\x02{}", 1002),
    ],
    ids=[
        "no UTF-8",
        "half a surrogate pair",
        "half a character",
        "binary",
        "compressed",
        "a continuation without a start",
        "an unknown opcode",
        "a long ping",
        "not masked",
    ],
)
async def test_protocol_errors_close_the_socket(live_server: LiveServer, bytes_: bytes, code: int) -> None:
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        wire.send(bytes_)
        found, reason = await wire.closed()
        assert found == code
        assert found != 1003 or reason == "binary_not_spoken"


async def test_fragmented_text_is_accepted(live_server: LiveServer) -> None:
    async with wire_to(live_server.served.port) as wire:
        await wire.opened(bearer()["authorization"])
        text = '{"type":"ping","id":"é"}'.encode()
        wire.send(frame(TEXT, text[:22], fin=False), frame(PING), frame(CONTINUED, text[22:]))
        await wire.frame()
        assert msgspec.json.decode((await wire.frame())[1]) == {"type": "reply", "data": {}, "id": "é"}


async def test_compression_is_not_negotiated(live_server: LiveServer) -> None:
    async with opened(live_server.url, bearer(), compression="deflate") as device:
        assert device.socket.protocol.extensions == []


MALFORMED = {
    "not JSON": ("hello", "malformed_json"),
    "nothing": ("", "malformed_json"),
    "half": ('{"type": "ack"', "malformed_json"),
    "two": ('{"type": "ping"} {"type": "ping"}', "malformed_json"),
    "a list": ("[]", "wrong_shape"),
    "no type": ("{}", "wrong_shape"),
    "a type that is not text": ('{"type": 5}', "wrong_shape"),
    "an unknown type": ('{"type": "dance"}', "type_unknown"),
    "data that is not an object": ('{"type": "ack", "data": 5}', "wrong_shape"),
    "no number": ('{"type": "ack", "data": {}}', "wrong_shape"),
    "a number as text": ('{"type": "ack", "data": {"seq": "1"}}', "wrong_shape"),
    "a negative number": ('{"type": "ack", "data": {"seq": -1}}', "wrong_shape"),
    "a too large number": ('{"type": "ack", "data": {"seq": 1%s}}' % ("0" * 30), "wrong_shape"),
    "a fraction": ('{"type": "ack", "data": {"seq": 1.5}}', "wrong_shape"),
    "no ride": ('{"type": "subscribe", "data": {"ride_id": "x"}}', "wrong_shape"),
    "a long id": ('{"type": "ping", "id": "%s"}' % ("x" * 65), "text_too_long"),
    "half a character": ('{"type": "ping", "id": "\\ud800"}', "malformed_json"),
    "deep": ("[" * 8000 + "]" * 8000, "malformed_json"),
    "deep data": ('{"type":"ping","data":{"a":%s}}' % ("[" * 7000 + "]" * 7000), "malformed_json"),
}


@pytest.mark.parametrize(("text", "reason"), MALFORMED.values(), ids=MALFORMED)
async def test_malformed_messages_are_answered_with_a_reason(
    live_server: LiveServer, text: str, reason: str
) -> None:
    async with opened(live_server.url, bearer() | {"accept-language": "en"}) as device:
        await device.socket.send(text)
        answer = await device.next()
        assert answer["type"] == "error"
        assert (answer["data"]["code"], answer["data"]["status"]) == ("message_malformed", 400)
        assert answer["data"]["reason"] in (reason, "wrong_shape")
        assert answer["data"]["detail"].startswith("The message could not be understood: ")
        assert await device.is_silent()


async def test_error_details_use_the_sockets_language(live_server: LiveServer) -> None:
    async with opened(live_server.url, bearer() | {"accept-language": "pt-BR"}) as device:
        answer = await device.ask("dance")
        assert answer["data"]["detail"] == (
            "Não foi possível entender a mensagem: esse tipo de mensagem não é conhecido aqui."
        )


async def test_ten_malformed_messages_close_the_socket(live_server: LiveServer) -> None:
    async with opened(live_server.url, bearer()) as device:
        for _ in range(10):
            await device.socket.send("hello")
        assert await device.closed() == (4400, "message_malformed")
        assert len(device.received) == 11


async def test_message_limit_closes_only_that_users_sockets(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MESSAGES", RateLimit(20, 10))
    ana, bia = await live_server.newcomer(), await live_server.newcomer()
    async with (
        live_server.device(ana) as device,
        live_server.device(ana) as second,
        live_server.device(bia) as other,
    ):
        for _ in range(15):
            await device.send_message("ping", message_id=None)
        assert await device.is_silent()
        for _ in range(15):
            await second.send_message("ping", message_id=None)
        assert await second.closed() == (4429, "too_many_messages"), "one user's sockets are added up"
        assert await other.is_silent()


@pytest.fixture
async def narrow_server(parts: Parts):
    """A server with small send buffers."""
    async with served(parts) as here, open_live_server(parts, here) as live_server:
        for one in here.server.servers[0].sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        yield live_server


async def test_client_that_pings_and_never_reads_is_cut_off(narrow_server: LiveServer) -> None:
    before = cut_off("unread")
    async with wire_to(narrow_server.served.port, narrow=True) as wire:
        await wire.opened(bearer()["authorization"])
        wire._writer.transport.pause_reading()
        sent = await pushed(wire, frame(PING, b"x" * 125) * 500, most=50 * MEGABYTE)
        assert sent < 50 * MEGABYTE
    assert cut_off("unread") == before + 1


async def test_client_cut_off_for_not_reading_misses_nothing(
    narrow_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "STALL_SECONDS", 0.2)
    before = cut_off("slow_reader")
    ana = await narrow_server.newcomer()
    async with wire_to(narrow_server.served.port, narrow=True) as wire:
        await wire.opened(ana.headers["authorization"])
        wire._writer.transport.pause_reading()
        for _ in range(5):
            await narrow_server.notify_user(ana, 200)
        (session,) = narrow_server.hub._sessions[ana.id]
        await until(lambda: cut_off("slow_reader") == before + 1)
        assert session.seq < 1000, "rows are not queued without limit"
        await until(lambda: not narrow_server.hub._sessions.get(ana.id))
    async with narrow_server.device(ana, since=0) as device:
        assert await device.seqs(1000) == list(range(1, 1001))


async def test_slow_reader_does_not_delay_other_closes(
    narrow_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catraca.domains.notifications.sockets.hub.SWEEP_SECONDS", 0.05)
    ana, bia = await narrow_server.newcomer(), await narrow_server.newcomer()
    async with wire_to(narrow_server.served.port, narrow=True) as wire, narrow_server.device(bia) as other:
        await wire.opened(ana.headers["authorization"])
        wire._writer.transport.pause_reading()
        for _ in range(5):
            await narrow_server.notify_user(ana, 200)
        for one in (ana, bia):
            path = f"/v1/users/{one.id}/sign-out"
            assert (await narrow_server.api.post(path, headers=bearer("operator"))).status_code == 204
        assert await other.closed() == (4401, "token_revoked")
