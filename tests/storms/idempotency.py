"""Repeats of one idempotent request while its server is killed."""

import asyncio
import os
import signal
from uuid import UUID, uuid4

import httpx

from catraca.platform.database import Database
from catraca.settings import Settings
from tests.conftest import SECRET, bearer, free_port
from tests.servers import until
from tests.support import forked
from tests.support.forked import ForkedProcess


async def post(
    client: httpx.AsyncClient, label: str, key: str | None, *, who: UUID | None = None, **body: object
) -> httpx.Response:
    headers = bearer("service", who) | ({} if key is None else {"idempotency-key": key})
    return await client.post("/test/effects", json={"label": label, **body}, headers=headers)


async def effects_of(database: Database, label: str) -> list[UUID]:
    async with database.connection() as db:
        return [row["id"] for row in await db.fetch("SELECT id FROM test_effects WHERE label = $1", label)]


async def kill_server_among_repeats(
    settings: Settings, database: Database, *, kill_after_answers: int
) -> None:
    """Two hundred requests with two keys while the server is killed: one effect and one response for each
    key.

    The server is killed when so many requests with the first key are answered, and none with the second.
    """
    port, who = free_port(), uuid4()
    answered: dict[str, list[bytes]] = {str(uuid4()): [], str(uuid4()): []}
    server = await start_effects_server(settings, port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

        async def ask_until_answered(label: str) -> None:
            while True:
                try:
                    answer = await post(client, label, label, who=who)
                except httpx.TransportError:
                    await asyncio.sleep(0.05)  # the client's own pace; the server is down
                    continue
                assert answer.status_code in (201, 409, 503), answer.text
                if answer.status_code == 201:
                    answered[label].append(answer.content)
                    return

        first, second = answered
        asking = [asyncio.create_task(ask_until_answered(first)) for _ in range(100)]
        await until(lambda: len(answered[first]) >= kill_after_answers)
        asking += [asyncio.create_task(ask_until_answered(second)) for _ in range(100)]
        await asyncio.sleep(0)
        assert not answered[second]
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = await start_effects_server(settings, port)
        async with asyncio.timeout(60):
            await asyncio.gather(*asking)
    server.terminate()
    assert server.wait(15) == 0
    for label, answers in answered.items():
        assert len(answers) == 100
        assert len(set(answers)) == 1
        assert len(await effects_of(database, label)) == 1


async def start_effects_server(settings: Settings, port: int) -> ForkedProcess:
    environment = os.environ | {
        "CATRACA_PORT": str(port),
        "CATRACA_DATABASE_URL": settings.servers.database_url or "",
        "CATRACA_REDIS_URL": settings.servers.redis_url or "",
        "CATRACA_STATE_DIR": str(settings.process.state_dir),
        "CATRACA_SECRET": SECRET,
        "CATRACA_RATE_LIMIT_PRINCIPAL": settings.http.rate_limit_principal,
    }
    server = forked.start("tests.support.effects:main", environment=environment)

    async def ready() -> bool:
        assert server.poll() is None, "the server did not start"
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await until(ready)
    return server
