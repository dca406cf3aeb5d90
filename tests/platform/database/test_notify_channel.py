"""Wake-ups by NOTIFY: few notifications, received by every process, working again after an outage."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from catraca.platform.database import notify_channel as module
from catraca.platform.database.notify_channel import NotifyChannel
from tests.servers import Stack, freeze, until

APPLICATION = "test_notify_channel"


@asynccontextmanager
async def process(stack: Stack) -> AsyncIterator[NotifyChannel]:
    """A channel as another process has it, with a connection of its own, listening."""

    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(
            stack.database_url, timeout=3, server_settings={"application_name": APPLICATION}
        )

    channel = NotifyChannel(connect)
    try:
        with channel.subscribe("start") as listening:
            await soon(listening)
        yield channel
    finally:
        await channel.close()


@pytest.fixture
async def payloads(stack: Stack) -> AsyncIterator[list[str]]:
    """Every notification that the server sends on the channel."""
    payloads: list[str] = []
    connection = await asyncpg.connect(stack.database_url)
    await connection.add_listener(module.CHANNEL, lambda *notification: payloads.append(notification[3]))
    yield payloads
    await connection.close()


def topics_of(channel: NotifyChannel, payloads: list[str]) -> list[list[str]]:
    """The topics of each notification that this channel sent; other tests may use it too."""
    return [payload.split(" ")[1:] for payload in payloads if payload.startswith(channel._process)]


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await event.wait()


async def test_subscribers_of_this_process_are_woken_at_once(stack: Stack) -> None:
    async with process(stack) as here:
        with here.subscribe("a") as first, here.subscribe("a") as second, here.subscribe("b") as other:
            here.publish("a")
            assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)
        first.clear()
        here.publish("a")
        assert not first.is_set()


async def test_subscribers_of_other_processes_are_woken(stack: Stack) -> None:
    async with process(stack) as here, process(stack) as there:
        with there.subscribe("a") as first, there.subscribe("b") as other:
            here.publish("a")
            await soon(first)
            assert not other.is_set()
            here.publish("b")
            await soon(other)


async def test_many_publications_are_few_notifications(stack: Stack, payloads: list[str]) -> None:
    async with process(stack) as here:
        for n in range(500):
            here.publish("a")
            here.publish("b")
            if n % 50 == 0:
                await asyncio.sleep(0)
        here.publish("last")
        await until(lambda: any("last" in topics for topics in topics_of(here, payloads)))
        assert len(topics_of(here, payloads)) < 15
        assert {topic for topics in topics_of(here, payloads) for topic in topics} == {"a", "b", "last"}


async def test_publication_during_a_notification_is_not_lost(stack: Stack, payloads: list[str]) -> None:
    async with process(stack) as here:
        for count in range(1, 30):
            here.publish("a")
            await until(lambda count=count: len(topics_of(here, payloads)) >= count)


async def test_payloads_fit_the_limit_of_the_server(stack: Stack, payloads: list[str]) -> None:
    topics = {f"queue:{n:0190d}" for n in range(200)}
    async with process(stack) as here:
        for topic in topics:
            here.publish(topic)
        await until(lambda: {topic for sent in topics_of(here, payloads) for topic in sent} == topics)
    assert max(len(payload) for payload in payloads) < 8000


async def _backends(stack: Stack) -> set[int]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name = $1", APPLICATION
        )
    finally:
        await connection.close()
    return {row["pid"] for row in rows}


async def test_subscribers_are_woken_when_a_lost_connection_is_back(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.05)
    async with process(stack) as here, process(stack) as there:
        with here.subscribe("a") as first, here.subscribe("b") as second:
            admin = await asyncpg.connect(stack.database_url)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
                APPLICATION,
            )
            await admin.close()
            await soon(first)
            await soon(second)
            await _receives(there, here)


async def _receives(sender: NotifyChannel, receiver: NotifyChannel) -> None:
    """Wait until the receiver is woken; the sender may have to connect again first."""
    with receiver.subscribe("again") as event:

        def send() -> bool:
            sender.publish("again")
            return event.is_set()

        await until(send)


async def test_channel_reconnects_when_its_server_process_hangs(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen backend sends nothing, not even that the connection is closed."""
    for name, seconds in (("RECONNECT_SECONDS", 0.05), ("SEND_SECONDS", 0.2), ("CHECK_SECONDS", 0.1)):
        monkeypatch.setattr(module, name, seconds)
    async with process(stack) as here, process(stack) as there:
        (frozen, *_) = sorted(await _backends(stack))
        freeze(frozen)
        try:
            with here.subscribe("a") as event, there.subscribe("a") as other:
                await until(lambda: event.is_set() or other.is_set())
                await _receives(here, there)
                await _receives(there, here)
        finally:
            with suppress(ProcessLookupError):
                os.kill(frozen, signal.SIGCONT)
                os.kill(frozen, signal.SIGTERM)


async def test_publish_does_not_wait_for_a_frozen_server(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEND_SECONDS", 0.2)
    async with process(stack) as here:
        frozen = await _backends(stack)
        freeze(*frozen)
        try:
            with here.subscribe("a") as event:
                for _ in range(1000):
                    event.clear()
                    here.publish("a")
                    assert event.is_set()
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


async def test_publications_before_a_connection_are_sent_once(
    stack: Stack, payloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.01)
    tries = 0

    async def connect() -> asyncpg.Connection:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise ConnectionRefusedError
        return await asyncpg.connect(stack.database_url)

    channel = NotifyChannel(connect)
    try:
        for _ in range(1000):
            channel.publish("a")
        await until(lambda: topics_of(channel, payloads))
        assert topics_of(channel, payloads) == [["a"]]
    finally:
        await channel.close()
