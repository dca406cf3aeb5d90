"""The API behaves as its OpenAPI document says: schemathesis generates requests to every route."""

import asyncio
import os
import sys
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.servers import on_one_stack

# Called with tokens of their own: after an erasure or a sign-out the token is invalid.
SELF_ENDING = r"^(erase|sign_out)_(me|user)$"
# Called without a token only; each password check is slow by intent.
PUBLIC = r"^(sign_in|set_password)$"
# Takes a file, whose content no schema describes. It has tests of its own.
FILES = r"^sign_up_many$"
OTHERS = f"--exclude-operation-id-regex={SELF_ENDING}|{PUBLIC}|{FILES}"
# A pattern cannot describe which characters exist or how they compose: beyond ASCII a valid text may be
# refused. NUL is refused everywhere.
PLAIN = ["--generation-codec=ascii", "--generation-allow-x00=false"]
OPTIONS = [
    "--checks=all",
    "--max-examples=5",
    "--generation-deterministic",
    "--phases=examples,coverage,fuzzing",
    "--workers=1",
    "--request-timeout=20",
    "--suppress-health-check=all",
    "--warnings=off",
    "--no-color",
]
ROOT = Path(__file__).parent.parent.parent
HOOKS = "tests.support.schemathesis_hooks"
CONFIG = """
[checks.positive_data_acceptance]
# 410: a link, an offer or a token that is well formed and has expired.
expected-statuses = ["2xx", "401", "403", "404", "409", "410", "429"]

[[operations]]
# 422: the key in the body was used for another ride; a schema cannot describe that.
include-operation-id-regex = "^accept_ride"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: invalid rings, unknown communities, places outside; a schema cannot describe them.
include-operation-id-regex = "^((create|change)_community|change_me|request_community_ride)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: a code that was not sent; a fare of a ride that is canceled.
include-operation-id-regex = "^(confirm_email|end_ride)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: moments before 1970 or after 2199; a schema has no bounds for them.
include-operation-id-regex = "^((list|replay|discard)_(audit|demand|dead_letters)|send_.*pings|set_status)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: unknown time zones, moments out of range or order, slots that are not free.
include-tag = "scheduling"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]
"""


async def schemathesis(
    api_url: str, folder: Path, *options: str, headers: dict[str, str] | None = None
) -> None:
    token = headers["authorization"].removeprefix("Bearer ") if headers else None
    auth = f'[auth.openapi.token]\nbearer = "{token}"\n' if token else ""
    (folder / "schemathesis.toml").write_text(CONFIG + auth)
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{api_url}/openapi.json",
        *OPTIONS,
        *options,
        cwd=folder,
        env=os.environ | {"SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.mark.long
@on_one_stack
async def test_documented_examples_are_answered_as_documented(api_url: str, tmp_path: Path) -> None:
    examples = ["--phases=examples", "--mode=positive"]
    await schemathesis(api_url, tmp_path, OTHERS, *examples, *PLAIN, headers=bearer("operator"))


@pytest.mark.long
@on_one_stack
@pytest.mark.parametrize("about", ["unknown ids", "a driver"])
async def test_operator_gets_documented_responses(
    api: httpx.AsyncClient, api_url: str, tmp_path: Path, about: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [OTHERS]
    if about == "a driver":
        driver = uuid4()
        assert (await api.get("/v1/me", headers=bearer("driver", driver))).status_code == 200
        monkeypatch.setenv("KNOWN_PERSON", str(driver))
        options = ["--include-path-regex=user_id|driver_id", OTHERS]
    await schemathesis(api_url, tmp_path, *options, *PLAIN, headers=bearer("operator"))


@pytest.mark.long
@on_one_stack
async def test_text_in_any_script_gets_documented_responses(api_url: str, tmp_path: Path) -> None:
    fuzzing = ["--phases=fuzzing", "--exclude-checks=positive_data_acceptance"]
    await schemathesis(api_url, tmp_path, OTHERS, *fuzzing, headers=bearer("operator"))


@pytest.mark.long
@on_one_stack
async def test_erasure_and_sign_out_get_documented_responses(api_url: str, tmp_path: Path) -> None:
    own = f"--include-operation-id-regex={SELF_ENDING}"
    await schemathesis(api_url, tmp_path, own, *PLAIN, headers=bearer(["driver", "operator"]))


@pytest.mark.long
@on_one_stack
async def test_caller_without_token_gets_documented_responses(api_url: str, tmp_path: Path) -> None:
    """Valid requests to every route; any requests to the public routes."""
    others = f"--exclude-operation-id-regex={PUBLIC}|{FILES}"
    limits = ["--phases=examples,coverage", "--mode=positive"]
    await schemathesis(api_url, tmp_path, others, *limits, *PLAIN)
    await schemathesis(api_url, tmp_path, f"--include-operation-id-regex={PUBLIC}", *PLAIN)
