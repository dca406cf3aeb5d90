"""Reconnects of the socket: each message arrives once and in order, also with a faulty server."""

import asyncio
from uuid import uuid4

import pytest

from catraca.client import Client, Gap, Live, LiveEnded, Message, Ping, Refused, Unreachable
from catraca.client.pauses import Pauses
from tests.client.scripted import Connection, listening, scripted
from tests.servers import until

WAIT_SECONDS = 20


async def take(live: Live, count: int) -> list[Message]:
    async with asyncio.timeout(WAIT_SECONDS):
        return [await anext(live) for _ in range(count)]


async def take_all(live: Live) -> list[Message]:
    return [message async for message in live]


def numbers(messages: list[Message]) -> list[int | None]:
    return [message.seq for message in messages]


async def greeted(conn: Connection) -> None:
    await conn.hello()
    await conn.stay()


async def test_connection_resumes_after_the_last_message() -> None:
    async def first(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(8, 9)
        conn.break_off()

    async def second(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(10)
        await conn.stay()

    async with listening(first, second, since=7) as (server, live):
        assert numbers(await take(live, 3)) == [8, 9, 10]
        assert live.seq == 10
    assert [conn.since for conn in server.connections] == [7, 9]


async def test_without_since_only_new_messages_are_delivered() -> None:
    async def first(conn: Connection) -> None:
        await conn.hello(seq=41)
        conn.break_off()

    async def second(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(42)
        await conn.stay()

    async with listening(first, second, since=None) as (server, live):
        assert numbers(await take(live, 1)) == [42]
    assert [conn.since for conn in server.connections] == [None, 41]


async def test_repeats_are_dropped_and_gaps_are_requested_again() -> None:
    async def first(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(1, 2, 2, 1, 4)
        await conn.stay()

    async def second(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(3, 4)
        await conn.stay()

    async with listening(first, second) as (server, live):
        assert numbers(await take(live, 4)) == [1, 2, 3, 4]
    assert [conn.since for conn in server.connections] == [0, 2]


@pytest.mark.parametrize(("hello", "seqs"), [(5, [7]), (3, [4, 5]), (9, [])])
async def test_gap_that_stays_raises_an_error(hello: int, seqs: list[int]) -> None:
    async def with_gap(conn: Connection) -> None:
        await conn.hello(seq=hello)
        await conn.send_numbers(*seqs)
        await conn.stay()

    async with scripted(with_gap) as server, Client(server.url, token="t") as catraca:
        with pytest.raises(Gap) as raised:
            await take(catraca.live(since=5), 1)
    assert raised.value.after == 5
    assert len(server.connections) > 1


async def test_silent_server_is_replaced_by_a_new_connection() -> None:
    async def silent(conn: Connection) -> None:
        await conn.hello(heartbeat_seconds=-0.95)  # with the margin for a slow network: 0.1 s
        await conn.stay()

    async with listening(silent, greeted, since=3) as (server, live), asyncio.timeout(WAIT_SECONDS):
        await until(lambda: live.connections == 2)
    assert [conn.since for conn in server.connections] == [3, 3]


async def test_unnumbered_messages_are_delivered_heartbeats_not() -> None:
    async def mixed(conn: Connection) -> None:
        await conn.hello()
        await conn.send("heartbeat")
        await conn.send("position", {"lat": 1.5})
        await conn.send_numbers(1)
        await conn.stay()

    async with listening(mixed) as (_, live):
        position, first = await take(live, 2)
    assert (position.seq, position.type, position.data) == (None, "position", {"lat": 1.5})
    assert first.seq == 1


@pytest.mark.parametrize("code", [1003, 1007, 1009, 4400, 4409])
async def test_final_close_code_is_not_followed_by_a_reconnect(code: int) -> None:
    async def close(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(1)
        await conn.socket.close(code, "because")

    async with scripted(close) as server, Client(server.url, token="t") as catraca:
        live = catraca.live(since=0)
        assert numbers(await take(live, 1)) == [1]
        with pytest.raises(LiveEnded) as raised:
            await take(live, 1)
        assert (raised.value.code, raised.value.reason) == (code, "because")
        with pytest.raises(LiveEnded):
            await live.ack(1)
    assert len(server.connections) == 1


async def test_reconnect_waits_as_long_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def restart(conn: Connection) -> None:
        await conn.hello()
        await conn.send("goodbye", {"code": "restarting", "reconnect_after_seconds": 7.5})
        await conn.socket.close(1012, "restarting")

    waits: list[float] = []

    def note(_pauses: Pauses, *, at_least: float = 0.0) -> float:
        waits.append(at_least)
        return 0.0

    monkeypatch.setattr(Pauses, "next_seconds", note)
    async with listening(restart, greeted) as (_, live):
        await until(lambda: live.connections == 2)
    assert waits == [7.5]


async def test_expired_token_is_renewed() -> None:
    tokens = iter(["old", "new"])

    async def expire(conn: Connection) -> None:
        await conn.hello()
        await conn.socket.close(4401, "token_expired")

    async with listening(expire, greeted, token=lambda: next(tokens)) as (server, live):
        await until(lambda: live.connections == 2)
    assert [conn.token for conn in server.connections] == ["old", "new"]
    async with scripted(expire) as server, Client(server.url, token="old") as catraca:
        with pytest.raises(LiveEnded):
            await take(catraca.live(since=0), 1)
    assert len(server.connections) == 1


async def test_delivered_messages_are_acknowledged_again_on_reconnect() -> None:
    async def first(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(1, 2)
        await conn.stay()

    async with listening(first, greeted, acknowledge=True) as (server, live), asyncio.timeout(WAIT_SECONDS):
        await until(lambda: live._received == 2)
        assert live._connection is not None
        await live._connection.send("ping")
        assert await server.received.get() == {"type": "ping"}, "no message was read yet"
        for seq in (1, 2):
            await take(live, 1)
            assert await server.received.get() == {"type": "ack", "data": {"seq": seq}}
        live.cut()
        assert await server.received.get() == {"type": "ack", "data": {"seq": 2}}


async def test_command_is_answered_refused_or_repeated_on_reconnect() -> None:
    async def answers(conn: Connection) -> None:
        await conn.hello()
        reading = asyncio.create_task(conn.stay())
        command = await conn.received.get()
        if command["data"]["lat"] > 0:
            refusal = {"code": "driver_offline", "status": 409, "detail": "Not at work.", "since": None}
            await conn.send("error", refusal, id=command["id"])
        else:
            await conn.send("reply", {"accepted": 1, "rejected": [], "kept_in": "redis"}, id=command["id"])
        await reading

    async def dies(conn: Connection) -> None:
        await conn.hello()
        await conn.socket.recv()
        conn.break_off()

    async with listening(dies, answers) as (_, live), asyncio.timeout(WAIT_SECONDS):
        taken = await live.ping(Ping(lat=-12.9, lng=-38.5))
        assert (taken.accepted, taken.rejected) == (1, [])
    async with listening(answers) as (_, live), asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(Refused) as raised:
            await live.ping(Ping(lat=12.9, lng=-38.5))
    refused = raised.value
    assert (refused.status, refused.code, refused.data) == (409, "driver_offline", {"since": None})


async def test_slow_reader_limits_the_messages_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catraca.client.live.MESSAGES_WAITING", 3)

    async def floods(conn: Connection) -> None:
        await conn.hello()
        await conn.send_numbers(*range(1, 200))
        await conn.stay()

    async with listening(floods) as (_, live):
        for number in range(1, 200):
            assert numbers(await take(live, 1)) == [number]
            assert len(live._waiting) <= 3


async def test_unanswered_command_raises_unreachable() -> None:
    async with Client("http://127.0.0.1:1", token="t") as catraca:
        with pytest.raises(Unreachable):
            async with catraca.live(patience_seconds=0.3):
                pass


async def test_patience_counts_only_time_without_a_connection() -> None:
    left_at = asyncio.Event()

    async def lasts(conn: Connection) -> None:
        await conn.hello()
        await left_at.wait()
        conn.break_off()

    async with listening(lasts, greeted, patience_seconds=0.2) as (_, live):
        asyncio.get_running_loop().call_later(0.5, left_at.set)
        await until(lambda: live.connections == 2 or live.is_closed)
        assert not live.is_closed


async def test_close_ends_the_iteration() -> None:
    async with listening(greeted) as (_, live):
        async with asyncio.TaskGroup() as tasks:
            rest = tasks.create_task(take_all(live))
            tasks.create_task(live.close())
        assert rest.result() == []
        with pytest.raises(Unreachable):
            await live.send("ping")


async def test_subscriptions_are_renewed_on_reconnect() -> None:
    async def answers(conn: Connection) -> None:
        await conn.hello()
        asyncio.create_task(conn.stay())  # noqa: RUF006
        command = await conn.received.get()
        if "id" in command:
            await conn.send("reply", id=command["id"])
        conn.received.put_nowait(command)
        await conn.socket.wait_closed()

    ride_id = uuid4()
    async with listening(answers, greeted) as (server, live), asyncio.timeout(WAIT_SECONDS):
        await live.subscribe(ride_id)
        await server.received.get()
        live.cut()
        assert await server.received.get() == {"type": "subscribe", "data": {"ride_id": str(ride_id)}}
