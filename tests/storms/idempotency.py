"""Repeats of one idempotent request while its server is killed."""

import asyncio
import os
import signal
import subprocess
import sys
from uuid import UUID, uuid4

import httpx

from catraca.platform.database import Database
from catraca.platform.embedded.children import end_with_parent
from catraca.settings import Settings
from tests.conftest import SECRET, bearer, free_port
from tests.servers import until


async def post(
    door: httpx.AsyncClient, label: str, key: str | None, *, who: UUID | None = None, **body: object
) -> httpx.Response:
    headers = bearer("passenger", who) | ({} if key is None else {"idempotency-key": key})
    return await door.post("/test/effects", json={"label": label, **body}, headers=headers)


async def effects_of(database: Database, label: str) -> list[UUID]:
    async with database.connection() as db:
        return [row["id"] for row in await db.fetch("SELECT id FROM test_effects WHERE label = $1", label)]


async def kill_server_among_repeats(
    settings: Settings, database: Database, *, kill_after_answers: int
) -> None:
    """A hundred requests with one key while the server is killed: one effect, the same answer for all."""
    port, who, label = free_port(), uuid4(), str(uuid4())
    answered: list[bytes] = []
    server = await start_effects_server(settings, port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

        async def ask_until_answered() -> None:
            while True:
                try:
                    answer = await post(client, label, "k", who=who)
                except httpx.TransportError:
                    await asyncio.sleep(0.05)  # the client's own pace; the server is down
                    continue
                assert answer.status_code in (201, 409, 503), answer.text
                if answer.status_code == 201:
                    answered.append(answer.content)
                    return

        asking = [asyncio.create_task(ask_until_answered()) for _ in range(100)]
        await until(lambda: len(answered) >= kill_after_answers)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = await start_effects_server(settings, port)
        async with asyncio.timeout(60):
            await asyncio.gather(*asking)
    server.terminate()
    assert server.wait(15) == 0
    assert len(answered) == 100
    assert len(set(answered)) == 1
    assert len(await effects_of(database, label)) == 1


async def start_effects_server(settings: Settings, port: int) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "CATRACA_PORT": str(port),
        "CATRACA_DATABASE_URL": settings.servers.database_url or "",
        "CATRACA_REDIS_URL": settings.servers.redis_url or "",
        "CATRACA_STATE_DIR": str(settings.process.state_dir),
        "CATRACA_SECRET": SECRET,
        "CATRACA_RATE_LIMIT_PRINCIPAL": settings.http.rate_limit_principal,
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.effects"],
        env=environment,
        preexec_fn=end_with_parent(signal.SIGKILL),
    )

    async def ready() -> bool:
        assert server.poll() is None, "the server did not start"
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await until(ready)
    return server
