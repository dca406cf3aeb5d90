"""The role that answers HTTP."""

import asyncio
import socket
from contextlib import nullcontext
from datetime import datetime
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI

from catraca.domains import people
from catraca.domains.people.routes import router as people_router
from catraca.platform.auth import (
    Authenticator,
    KeySource,
    Principal,
    RemoteKeys,
    SharedSecret,
    TokenRules,
    TokenVerifier,
)
from catraca.platform.http.app import HttpParts, create_app
from catraca.platform.http.envelope import RequestLimits
from catraca.platform.http.gate import CallerLimits
from catraca.platform.http.health import Health
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.roles.parts import Parts
from catraca.roles.runner import Life
from catraca.settings import Settings

ROUTERS = [people_router]


class Api:
    """Serves until told to stop; then not ready, no new connections, finishes what is in hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._health = Health(required={"database": parts.database.is_up})

    async def run(self, life: Life) -> None:
        settings = self._parts.settings
        server = _Server(
            uvicorn.Config(
                build_app(self._parts, self._health),
                http="httptools",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=8,
                forwarded_allow_ips=settings.trusted_proxies,
                proxy_headers=bool(settings.trusted_proxies),
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[_listen(settings)]))
        stopping = asyncio.create_task(life.stopping.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        self._health.draining = True
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """The runner handles signals, for all roles of the process alike."""

    def capture_signals(self) -> Any:
        return nullcontext()


def build_app(parts: Parts, health: Health) -> FastAPI:
    settings = parts.settings

    async def tokens_valid_after(principal: Principal) -> datetime | None:
        async with parts.database.connection() as db:
            return await people.ensure_user(db, principal.id, roles=principal.roles)

    rules = TokenRules(
        issuer=settings.jwt_issuer, audience=settings.jwt_audience, roles_claim=settings.jwt_roles_claim
    )
    return create_app(
        HttpParts(
            database=parts.database,
            authenticator=Authenticator(TokenVerifier(_keys(settings), rules), tokens_valid_after),
            limiter=RateLimiter(),
            health=health,
            caller_limits=CallerLimits(
                principal=RateLimit.parse(settings.rate_limit_principal),
                anonymous=RateLimit.parse(settings.rate_limit_anonymous),
            ),
            request_limits=RequestLimits(body_bytes=settings.max_body_bytes),
            cors_origins=settings.cors_origins,
        ),
        ROUTERS,
        version=version("catraca"),
    )


def _keys(settings: Settings) -> KeySource:
    return RemoteKeys(settings.jwks_url) if settings.jwks_url else SharedSecret(settings.signing_secret())


def _listen(settings: Settings) -> socket.socket:
    """Several processes may listen on one port; the kernel shares out the connections."""
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((settings.host, settings.port))
    return listener
