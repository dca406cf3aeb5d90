"""The proxy samples of docs/operations.md: requests, WebSockets and a rolling restart through each."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGTERM
from uuid import uuid4

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect

from catraca.domains.notifications.sockets.hub import HEARTBEAT_SECONDS
from tests.conftest import bearer, free_port
from tests.journeys.proxies import Proxy, sample
from tests.servers import Stack, on_one_stack, until
from tests.storms.processes import Fleet, fleet_at, is_ready

PROXIES = ("nginx", "haproxy", "caddy")
SETTINGS = {
    "CATRACA_LOG_LEVEL": "warning",
    "CATRACA_TRUSTED_PROXIES": "127.0.0.1",
    "CATRACA_RATE_LIMIT_ANONYMOUS": "3/hour",
    "CATRACA_RATE_LIMIT_PRINCIPAL": "100000/second",
    # Longer than two of the proxies' checks.
    "CATRACA_DRAIN_DELAY": "4",
}
# Addresses of this machine that are no trusted proxies; each proxy has its own, because Redis counts them.
SENDERS = {name: (f"127.0.0.{place}2", f"127.0.0.{place}3") for place, name in enumerate(PROXIES, 1)}
CALLERS = 4

each_proxy = pytest.mark.parametrize("name", PROXIES)


@dataclass
class Site:
    """A proxy and the two APIs behind it."""

    proxy: Proxy
    fleet: Fleet
    ports: tuple[int, int]

    def client(self, *, sender: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(verify=self.proxy.tls(), local_address=sender)
        return httpx.AsyncClient(
            base_url=f"https://{self.proxy.host}", transport=transport, headers=headers, timeout=30
        )


@asynccontextmanager
async def site_of(name: str, stack: Stack, folder: Path) -> AsyncIterator[Site]:
    ports = (free_port(), free_port())
    proxy = Proxy(name, folder, free_port())
    proxy.write(ports)
    url = await stack.migrated_database(f"proxy_{uuid4().hex[:8]}")
    async with AsyncExitStack() as ending:
        fleet = await ending.enter_async_context(
            fleet_at(folder, url, stack.redis_url, None, lineup=(), settings=SETTINGS)
        )
        site = Site(proxy, fleet, ports)
        fleet.processes = [start_api(site, port) for port in ports]
        for port in ports:
            await until(lambda port=port: is_ready(port))
        await ending.enter_async_context(proxy.running())
        await until(lambda: answers(site))
        yield site


def start_api(site: Site, port: int):
    # Each with its own state folder, and so its own metrics.
    folder = site.proxy.folder / str(port)
    environment = site.fleet.environment | {"CATRACA_PORT": str(port), "CATRACA_STATE_DIR": str(folder)}
    return replace(site.fleet, environment=environment).start(("api",))


async def answers(site: Site) -> bool:
    """True when the proxy has found the APIs."""
    async with site.client() as client:
        return (await client.get("/readyz")).status_code == 200


async def served(port: int) -> float:
    """How many requests for profiles this API has served."""
    async with httpx.AsyncClient(headers=bearer(), timeout=30) as client:
        text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    counts = re.findall(r'^catraca_http_requests_total\{.*route="/v1/me".*\} (\S+)$', text, re.MULTILINE)
    return sum(map(float, counts))


@pytest.mark.long
@each_proxy
def test_proxy_accepts_its_sample(name: str, tmp_path: Path) -> None:
    proxy = Proxy(name, tmp_path, free_port())
    proxy.write((free_port(), free_port()))
    proxy.check()


@pytest.mark.parametrize(
    "timeout",
    [r"= /v1/ws \{[^}]*proxy_read_timeout (\d+)s", r"timeout tunnel (\d+)s"],
    ids=["nginx", "haproxy"],
)
def test_socket_timeout_is_longer_than_two_heartbeats(timeout: str) -> None:
    (seconds,) = re.findall(timeout, sample("nginx") + sample("haproxy"))
    assert int(seconds) > 2 * HEARTBEAT_SECONDS


@pytest.mark.long
@on_one_stack
@each_proxy
async def test_requests_pass_with_the_address_of_the_sender(name: str, stack: Stack, tmp_path: Path) -> None:
    sender, other_sender = SENDERS[name]
    async with site_of(name, stack, tmp_path) as site:
        async with site.client(**bearer()) as client:
            answer = await client.patch("/v1/me", json={"name": "Ana"})
            assert (answer.status_code, answer.json()["name"]) == (200, "Ana")
            assert "strict-transport-security" in answer.headers, "the proxy names the scheme"
            for path in ("/metrics", "/%6detrics"):
                assert (await client.get(path)).status_code == 404
        async with site.client(sender=sender) as client:
            statuses = [(await client.get("/v1/me")).status_code for _ in range(5)]
            assert statuses == [401] * 3 + [429] * 2, "counted by the address of the sender"
            forged = {"x-forwarded-for": "203.0.113.7"}
            assert (await client.get("/v1/me", headers=forged)).status_code == 429
        async with site.client(sender=other_sender) as client:
            assert (await client.get("/v1/me")).status_code == 401


@pytest.mark.long
@on_one_stack
@each_proxy
async def test_quiet_socket_stays_open_for_two_heartbeats(name: str, stack: Stack, tmp_path: Path) -> None:
    async with site_of(name, stack, tmp_path) as site:
        socket = connect(
            f"wss://{site.proxy.host}/v1/ws",
            ssl=site.proxy.tls(),
            origin=f"https://{site.proxy.host}",  # type: ignore[arg-type]
            additional_headers=bearer(),
            ping_interval=None,
            proxy=None,
        )
        async with socket as live, asyncio.timeout(4 * HEARTBEAT_SECONDS):
            frames = [msgspec.json.decode(await live.recv())["type"] for _ in range(3)]
        assert frames == ["hello", "heartbeat", "heartbeat"]


@pytest.mark.long
@on_one_stack
@each_proxy
async def test_rolling_restart_fails_no_request(name: str, stack: Stack, tmp_path: Path) -> None:
    async with site_of(name, stack, tmp_path) as site:
        failed: list[str] = []
        done = asyncio.Event()
        counts = [0] * CALLERS

        async def call(number: int) -> None:
            async with site.client(**bearer()) as client:
                while not done.is_set():
                    for method, body in (("GET", None), ("PATCH", {"name": "Ana"})):
                        answer = await client.request(method, "/v1/me", json=body)
                        counts[number] += 1
                        if answer.status_code != 200:
                            failed.append(f"{method} {answer.status_code} {answer.text}")

        async def serves(port: int) -> None:
            """Wait until the proxy sends requests to this API."""
            before = await served(port)

            async def serves_more() -> bool:
                return await served(port) > before

            await until(serves_more)

        async with asyncio.TaskGroup() as callers:
            for number in range(CALLERS):
                callers.create_task(call(number))
            for port in site.ports:
                await serves(port)
            for place, port in enumerate(site.ports):
                old = site.fleet.processes[place]
                old.send_signal(SIGTERM)
                assert await asyncio.to_thread(old.wait, 60) == 0
                await serves(site.ports[1 - place])
                site.fleet.processes[place] = start_api(site, port)
                await until(lambda port=port: is_ready(port))
                # The others check first whether it is ready again. nginx must use it at once.
                if name != "nginx":
                    await serves(port)
            await asyncio.gather(*map(serves, site.ports))
            done.set()
        assert not failed, f"{len(failed)} of {sum(counts)}: {failed[:3]}"
