"""Wake-ups: few, heard by every process, and back by themselves after whatever cut them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from catraca.platform.database import wakeups as module
from catraca.platform.database.wakeups import Wakeups
from tests.servers import Stack, until


@asynccontextmanager
async def process(stack: Stack) -> AsyncIterator[Wakeups]:
    """As another process has them: a connection of its own, listening."""

    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(
            stack.database_url, timeout=3, server_settings={"application_name": "wakeups"}
        )

    wakeups = Wakeups(connect)
    try:
        with wakeups.waiting_for("whatever") as begun:
            async with asyncio.timeout(30):
                await begun.wait()
        yield wakeups
    finally:
        await wakeups.close()


@pytest.fixture
async def heard(stack: Stack) -> AsyncIterator[list[str]]:
    """Every notification on the channel, as the server tells it."""
    payloads: list[str] = []
    connection = await asyncpg.connect(stack.database_url)
    await connection.add_listener(module.CHANNEL, lambda *told: payloads.append(told[3]))
    yield payloads
    await connection.close()


def of(wakeups: Wakeups, payloads: list[str]) -> list[list[str]]:
    """The topics of each notification this process sent; others may be on the channel."""
    return [told.split(" ")[1:] for told in payloads if told.startswith(wakeups._me)]


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await event.wait()


async def test_whoever_waits_in_this_process_hears_at_once(stack: Stack) -> None:
    async with process(stack) as here:
        with here.waiting_for("a") as told, here.waiting_for("a") as me_too, here.waiting_for("b") as other:
            here.announce("a")
            assert (told.is_set(), me_too.is_set(), other.is_set()) == (True, True, False)
        told.clear()
        here.announce("a")
        assert not told.is_set()


async def test_other_processes_hear_too(stack: Stack) -> None:
    async with process(stack) as here, process(stack) as there:
        with there.waiting_for("a") as told, there.waiting_for("b") as other:
            here.announce("a")
            await soon(told)
            assert not other.is_set()
            here.announce("b")
            await soon(other)


async def test_many_announcements_are_few_notifications(stack: Stack, heard: list[str]) -> None:
    async with process(stack) as here:
        for n in range(500):
            here.announce("a")
            here.announce("b")
            if n % 50 == 0:
                await asyncio.sleep(0)
        here.announce("last")
        await until(lambda: any("last" in topics for topics in of(here, heard)))
        assert len(of(here, heard)) < 15
        assert {topic for topics in of(here, heard) for topic in topics} == {"a", "b", "last"}


async def test_an_announcement_during_a_notification_is_not_lost(stack: Stack, heard: list[str]) -> None:
    async with process(stack) as here:
        for count in range(1, 30):
            here.announce("a")
            await until(lambda count=count: len(of(here, heard)) >= count)


async def test_no_notification_is_longer_than_the_server_takes(stack: Stack, heard: list[str]) -> None:
    topics = {f"queue:{n:0190d}" for n in range(200)}
    async with process(stack) as here:
        for topic in topics:
            here.announce(topic)
        await until(lambda: {topic for told in of(here, heard) for topic in told} == topics)
    assert max(len(payload) for payload in heard) < 8000


async def _backends(stack: Stack) -> set[int]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'wakeups'")
    finally:
        await connection.close()
    return {row["pid"] for row in rows}


async def test_a_cut_connection_is_made_again_and_everybody_looks_for_what_was_missed(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.05)
    async with process(stack) as here, process(stack) as there:
        with here.waiting_for("a") as told, here.waiting_for("b") as other:
            admin = await asyncpg.connect(stack.database_url)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wakeups'"
            )
            await admin.close()
            await soon(told)
            await soon(other)
            await _hears(there, here)


async def _hears(speaker: Wakeups, listener: Wakeups) -> None:
    """Sooner or later, for the speaker too may have to connect again."""
    with listener.waiting_for("again") as told:

        def speak() -> bool:
            speaker.announce("again")
            return told.is_set()

        await until(speak)


async def test_a_listener_learns_that_the_other_end_fell_silent(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen backend says nothing, not even that it is gone."""
    for name, seconds in (("RECONNECT_SECONDS", 0.05), ("SEND_SECONDS", 0.2), ("CHECK_SECONDS", 0.1)):
        monkeypatch.setattr(module, name, seconds)
    async with process(stack) as here, process(stack) as there:
        (frozen, *_) = sorted(await _backends(stack))
        os.kill(frozen, signal.SIGSTOP)
        try:
            with here.waiting_for("a") as told, there.waiting_for("a") as told_there:
                await until(lambda: told.is_set() or told_there.is_set())
                await _hears(here, there)
                await _hears(there, here)
        finally:
            with suppress(ProcessLookupError):
                os.kill(frozen, signal.SIGCONT)
                os.kill(frozen, signal.SIGTERM)


async def test_a_frozen_server_keeps_no_announcer_waiting(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEND_SECONDS", 0.2)
    async with process(stack) as here:
        frozen = await _backends(stack)
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            with here.waiting_for("a") as told:
                for _ in range(1000):
                    told.clear()
                    here.announce("a")
                    assert told.is_set()
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


async def test_while_nobody_can_connect_announcements_wait_and_do_not_pile_up(
    stack: Stack, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.01)
    tries = 0

    async def connect() -> asyncpg.Connection:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise ConnectionRefusedError
        return await asyncpg.connect(stack.database_url)

    wakeups = Wakeups(connect)
    try:
        for _ in range(1000):
            wakeups.announce("a")
        await until(lambda: of(wakeups, heard))
        assert of(wakeups, heard) == [["a"]]
    finally:
        await wakeups.close()
