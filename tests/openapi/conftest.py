"""The OpenAPI document, made without servers."""

from typing import Any

import pytest
from fastapi import FastAPI

from tools.client_models import build_offline_app


@pytest.fixture(scope="session")
async def app() -> FastAPI:
    return await build_offline_app()


@pytest.fixture(scope="session")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()
