"""The server's life: it serves until it is stopped, then finishes the requests it has."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter

from catraca.platform.http.connections import LOOPBACK
from catraca.platform.http.health import Health
from catraca.platform.http.server import HttpServer, ServerLimits
from catraca.roles.api.app import build_app, hub_of
from catraca.roles.api.routers import ROUTERS, STREAMS
from catraca.roles.listener import open_listener
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, first_of
from catraca.settings.http import HttpSettings


def server_limits(settings: HttpSettings) -> ServerLimits:
    return ServerLimits(
        streams=STREAMS,
        connections_per_address=settings.connections_per_address,
        proxies=[*LOOPBACK, *settings.trusted_proxies],
    )


class Api:
    def __init__(
        self,
        parts: Parts,
        more_routers: Sequence[APIRouter] = (),
        *,
        routers: Sequence[APIRouter] = ROUTERS,
    ) -> None:
        self._parts = parts
        self._routers = [*routers, *more_routers]
        self._health = Health(
            required={"database": parts.database.reserve.is_up},
            reported={"redis": parts.redis.is_up, "bus": parts.bus.is_up},
        )

    async def run(self, life: Life) -> None:
        """Serve until `life.stopping`; then report not ready, accept no connections, finish requests."""
        process = self._parts.settings.process
        app = build_app(self._parts, self._health, self._routers)
        hub = hub_of(app)
        server = HttpServer(app, limits=server_limits(self._parts.settings.http))
        listener = self._parts.listener or open_listener(process.host, process.port)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await first_of(asyncio.wait([serving]), life.stopping.wait())
        self._health.draining = True
        # Load balancers poll for readiness; until they know, they still send connections.
        await asyncio.wait([serving], timeout=process.drain_delay)
        await hub.drain()
        server.should_exit = True
        await serving
