"""The OpenAPI document, made without servers."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tools.client_models import build_offline_app


@pytest.fixture(scope="session")
def app() -> FastAPI:
    # Not `async`: the tests are not, and a loop for them alone would end the one of all servers.
    return asyncio.run(build_offline_app())


@pytest.fixture(scope="session")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture(scope="session")
def document_file(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of linters and generators, which `make test-all` installs."""
    folder = Path(sys.prefix) / "openapi"
    if not folder.with_name(".openapi").exists():
        pytest.fail("the OpenAPI tools are not installed: run `make .venv/.openapi`")
    return folder
