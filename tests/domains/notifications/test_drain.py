"""A stopping server says goodbye; a client that reconnects elsewhere misses nothing."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from catraca.domains.notifications.sockets import hub
from catraca.domains.notifications.sockets.session import Session
from catraca.platform.errors import Busy
from catraca.roles.api import Api
from catraca.roles.listener import open_listener
from catraca.roles.parts import Parts
from catraca.roles.runner import Life
from tests.conftest import bearer
from tests.domains.notifications.devices import Device, LiveServer, open_live_server, opened, refusal
from tests.servers import on_one_stack, until
from tests.support.http import served

pytestmark = on_one_stack


async def farewell(device: Device) -> tuple[float, list[Any]]:
    """Return the reconnect time and the frames before the goodbye."""
    before = []
    while (frame := await device.next())["type"] != "goodbye":
        before.append(frame)
    assert frame["data"]["code"] == "restarting"
    assert await device.closed() == (1012, "restarting")
    return frame["data"]["reconnect_after_seconds"], before


async def test_drain_spreads_the_reconnect_times(parts: Parts) -> None:
    async with served(parts) as here, open_live_server(parts, here) as leaving, AsyncExitStack() as ending:
        devices = [await ending.enter_async_context(opened(leaving.url, bearer())) for _ in range(12)]
        _, *farewells = await asyncio.gather(leaving.hub.drain(), *(farewell(one) for one in devices))
        waits = [wait for wait, _ in farewells]
        assert all(hub.RECONNECT_SECONDS[0] <= wait <= hub.RECONNECT_SECONDS[1] for wait in waits)
        assert len(set(waits)) > len(waits) // 2
        await until(lambda: not leaving.hub._sessions)
        assert await refusal(leaving.url, bearer()) == (503, "busy")


async def test_next_server_sends_the_rest_after_a_drain(live_server: LiveServer, parts: Parts) -> None:
    ana = await live_server.newcomer()
    async with served(parts) as here, open_live_server(parts, here) as leaving, leaving.device(ana) as device:
        notifying = asyncio.create_task(_keep_notifying(live_server, ana))
        seqs = [one["seq"] for one in await device.notices(3)]
        _, (_, more) = await asyncio.gather(leaving.hub.drain(), farewell(device))
        seqs += [one["seq"] for one in more]
        await notifying
    async with live_server.device(ana, since=seqs[-1]) as device:
        seqs += await device.seqs(40 - seqs[-1])
    assert seqs == list(range(1, 41))


async def _keep_notifying(live_server: LiveServer, user: Any) -> None:
    for _ in range(20):
        await live_server.notify_user(user, 2)


async def test_draining_hub_refuses_an_admitted_socket(parts: Parts) -> None:
    async with served(parts) as here, open_live_server(parts, here) as leaving:
        await leaving.hub.drain()
        session = Session(None, "en", None, None, None, None)  # type: ignore[arg-type]
        with pytest.raises(Busy):
            await leaving.hub.join(session, since=None)
        assert not leaving.hub._sessions


async def test_stopping_api_sends_goodbye(parts: Parts, live_server: LiveServer) -> None:
    life = Life()
    changed = replace(parts, settings=parts.settings.changed(drain_delay=0.05))
    ana = await live_server.newcomer()
    with open_listener("127.0.0.1", 0) as listener:
        running = asyncio.create_task(Api(replace(changed, listener=listener)).run(life))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with opened(url, ana.headers) as device:
            life.stopping.set()
            await farewell(device)
        await running
