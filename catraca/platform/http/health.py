"""Is it alive, is it ready, and its figures."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel

Check = Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class Health:
    """What readiness depends on. `draining` is set when the process was asked to stop."""

    required: dict[str, Check] = field(default_factory=dict[str, Check])
    reported: dict[str, Check] = field(default_factory=dict[str, Check])
    draining: bool = False


class Liveness(BaseModel):
    status: Literal["alive"] = "alive"


class Readiness(BaseModel):
    status: Literal["ready", "not_ready", "draining"]
    parts: dict[str, Literal["up", "down"]]


router = APIRouter(tags=["health"])


@router.get("/livez", summary="Is the process alive?")
async def livez() -> Liveness:
    return Liveness()


@router.get("/readyz", summary="May it be sent traffic?", responses={503: {"model": Readiness}})
async def readyz(request: Request, response: Response) -> Readiness:
    """Ready needs PostgreSQL. Redis and the bus are reported; without them everything works, slower."""
    health: Health = request.app.state.health
    parts = {name: await check() for name, check in (health.required | health.reported).items()}
    ready = all(parts[name] for name in health.required)
    status = "draining" if health.draining else "ready" if ready else "not_ready"
    response.status_code = 200 if status == "ready" else 503
    return Readiness(status=status, parts={name: "up" if up else "down" for name, up in parts.items()})


@router.get("/metrics", summary="Figures of all processes, for Prometheus", response_class=Response)
async def metrics() -> Response:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
