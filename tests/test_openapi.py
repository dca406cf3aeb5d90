"""The API does what its OpenAPI document says, whatever is sent: schemathesis asks every route there is."""

import asyncio
import os
import sys
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.servers import on_one_stack

# Asked with a token of its own: whoever erases themselves or signs out is not let in again.
SELF_ENDING = r"^(erase|sign_out)_(me|user)$"
# Asked by strangers alone, to whom they are meant; each password tried is slow by intent.
PUBLIC = r"^(sign_in|set_password)$"
# Takes a file: no schema can say what stands in it. It has tests of its own.
FILES = r"^sign_up_many$"
OTHERS = f"--exclude-operation-id-regex={SELF_ENDING}|{PUBLIC}|{FILES}"
# A pattern cannot say which characters exist or how they compose: beyond ASCII a sound text may be refused.
# That no text holds NUL is said once for all of them.
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
ROOT = Path(__file__).parent.parent
HOOKS = "tests.support.schemathesis_hooks"
CONFIG = """
[checks.positive_data_acceptance]
# 410: a link, an offer or a token that is well formed and no longer good.
expected-statuses = ["2xx", "401", "403", "404", "409", "410", "429"]

[[operations]]
# 422: the key in the body was used for another ride, which no schema can say.
include-operation-id-regex = "^accept_ride"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: what makes a ring, which communities there are, and where, no schema can say either.
include-operation-id-regex = "^((create|change)_community|change_me|request_community_ride)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "410", "422", "429"]

[[operations]]
# 422: which zones there are, which moments are plausible and in order, and which times are offered.
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
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


@on_one_stack
@pytest.mark.parametrize("about", ["strangers", "a driver"])
async def test_an_operator_finds_the_api_as_documented(
    api: httpx.AsyncClient, api_url: str, tmp_path: Path, about: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [OTHERS]
    if about == "a driver":
        driver = uuid4()
        assert (await api.get("/v1/me", headers=bearer("driver", driver))).status_code == 200
        monkeypatch.setenv("KNOWN_PERSON", str(driver))
        options = ["--include-path-regex=user_id|driver_id", OTHERS]
    await schemathesis(api_url, tmp_path, *options, *PLAIN, headers=bearer("operator"))


@on_one_stack
async def test_an_operator_who_writes_in_any_script_finds_nothing_broken(
    api_url: str, tmp_path: Path
) -> None:
    fuzzing = ["--phases=fuzzing", "--exclude-checks=positive_data_acceptance"]
    await schemathesis(api_url, tmp_path, OTHERS, *fuzzing, headers=bearer("operator"))


@on_one_stack
async def test_whoever_ends_their_own_access_finds_it_as_documented(api_url: str, tmp_path: Path) -> None:
    own = f"--include-operation-id-regex={SELF_ENDING}"
    await schemathesis(api_url, tmp_path, own, *PLAIN, headers=bearer(["driver", "operator"]))


@on_one_stack
async def test_a_stranger_finds_the_api_as_documented(api_url: str, tmp_path: Path) -> None:
    """Every route, with what it would take from others; the strangers' own doors with anything."""
    others = f"--exclude-operation-id-regex={PUBLIC}|{FILES}"
    limits = ["--phases=examples,coverage", "--mode=positive"]
    await schemathesis(api_url, tmp_path, others, *limits, *PLAIN)
    await schemathesis(api_url, tmp_path, f"--include-operation-id-regex={PUBLIC}", *PLAIN)
