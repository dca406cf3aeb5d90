"""Liveness, readiness and metrics."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel

from catraca.platform.auth import Principal
from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import Refusal, Unauthenticated
from catraca.platform.gather import Gather
from catraca.platform.http.route import make_router

# The text of many processes takes tens of milliseconds, and strangers can ask for it.
METRICS_KEPT_SECONDS = 1.0
Check = Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class Health:
    """The checks of readiness. `draining` is set when the process is stopping."""

    required: dict[str, Check] = field(default_factory=dict[str, Check])
    reported: dict[str, Check] = field(default_factory=dict[str, Check])
    draining: bool = False
    _questions: "Gather[None, dict[str, bool]]" = field(init=False)

    def __post_init__(self) -> None:
        # Concurrent requests share one check of the servers.
        self._questions = Gather(self._check)

    async def parts(self) -> dict[str, bool]:
        """The state of each part now."""
        return await self._questions.ask(None)

    async def _check(self, questions: Sequence[None]) -> Sequence[dict[str, bool]]:
        checks = self.required | self.reported
        up = await asyncio.gather(*(check() for check in checks.values()))
        return [dict(zip(checks, up, strict=True))] * len(questions)


class MetricsPage:
    """The text of /metrics, computed at most about once a second, however many requests there are."""

    def __init__(self, *, kept_seconds: float) -> None:
        self._kept_seconds = kept_seconds
        self._text = b""
        self._made_at = -math.inf
        # Concurrent requests share one text.
        self._questions = Gather[None, bytes](self._make)

    async def text(self) -> bytes:
        return await self._questions.ask(None)

    async def _make(self, questions: Sequence[None]) -> Sequence[bytes]:
        if monotonic_seconds() - self._made_at >= self._kept_seconds:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
            # In a thread: reading the files of all processes is slow.
            self._text = await asyncio.to_thread(generate_latest, registry)
            self._made_at = monotonic_seconds()
        return [self._text] * len(questions)


class Liveness(BaseModel):
    status: Literal["alive"] = "alive"


class Readiness(BaseModel):
    status: Literal["ready", "not_ready", "draining"]
    parts: dict[str, Literal["up", "down"]]


router = make_router()


@router.get("/livez", tags=["health"], summary="Check liveness")
async def livez() -> Liveness:
    return Liveness()


@router.get("/readyz", tags=["health"], summary="Check readiness", responses={503: {"model": Readiness}})
async def readyz(request: Request, response: Response) -> Readiness:
    """Readiness needs PostgreSQL. Redis and the bus are only reported: all works without them, slower."""
    health: Health = request.app.state.health
    parts = await health.parts()
    ready = all(parts[name] for name in health.required)
    status = "draining" if health.draining else "ready" if ready else "not_ready"
    response.status_code = 200 if status == "ready" else 503
    return Readiness(status=status, parts={name: "up" if up else "down" for name, up in parts.items()})


@router.get(
    "/metrics",
    tags=["health"],
    summary="Metrics of all processes, for Prometheus",
    response_class=PlainTextResponse,
    openapi_extra={"security": [{}, {"token": []}]},
)
async def metrics(request: Request) -> Response:
    """Public, or for operators only, by a setting of the server. The figures may be a second old."""
    if not request.app.state.metrics_public:
        _require_operator(request.state.principal)
    page: MetricsPage = request.app.state.metrics_page
    return Response(await page.text(), media_type=CONTENT_TYPE_LATEST)


def _require_operator(principal: Principal | Refusal | None) -> None:
    if not isinstance(principal, Principal):
        raise principal or Unauthenticated()
    principal.require("operator")
