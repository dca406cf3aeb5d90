"""Clients with new users, which are added on first use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

from catraca.client import Client
from catraca.platform.auth import sign_token
from tests.conftest import SECRET

PRACA_DA_SE = {"pickup_lat": -12.9745, "pickup_lon": -38.5103}
FAROL_DA_BARRA = {"dropoff_lat": -13.0102, "dropoff_lon": -38.5326}


def token_of(role: str, sub: UUID | None = None, *, seconds: float = 3600) -> str:
    return sign_token(SECRET, subject=sub or uuid4(), roles=[role], lifetime=timedelta(seconds=seconds))


@asynccontextmanager
async def person(url: str, role: str, *, deadline_seconds: float = 30) -> AsyncIterator[Client]:
    token = token_of(role)
    async with Client(url, token=token, deadline_seconds=deadline_seconds, language="en") as catraca:
        yield catraca
