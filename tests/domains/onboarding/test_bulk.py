"""Files of sign-ups, by HTTP and from the command line."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from catraca.domains.onboarding import service
from catraca.platform.auth import sign_token
from catraca.platform.bus import Message, QueueFull
from catraca.platform.http.server import ServerLimits
from tests.domains.onboarding.harness import SignUpHarness, new_address, on_both_buses
from tests.servers import until
from tests.support.forked import run_catraca

PATH = "/v1/users/bulk"
CSV, JSONL = "text/csv; charset=utf-8", "application/x-ndjson"

# These tests need no particular bus: the code calls a function that publishes.
on_one_bus = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


def as_operator(harness: SignUpHarness, **headers: str) -> dict[str, str]:
    secret = harness.parts.settings.signing_secret()
    token = sign_token(secret, subject=uuid4(), roles=["operator"], lifetime=timedelta(hours=1))
    return {"authorization": f"Bearer {token}", **headers}


async def send(harness: SignUpHarness, body: bytes, kind: str, **headers: str) -> httpx.Response:
    given = as_operator(harness) | headers
    return await harness.api.post(PATH, content=body, headers={"content-type": kind, **given})


async def names(harness: SignUpHarness, *addresses: str) -> list[str]:
    rows = await harness.fetch("SELECT name FROM users WHERE email = ANY ($1) ORDER BY name", list(addresses))
    return [row["name"] for row in rows]


@on_both_buses
async def test_valid_lines_become_users_and_others_are_reported(harness: SignUpHarness) -> None:
    rosa, jose = new_address(), new_address()
    lines = [
        {"name": "Rosa", "email": rosa},
        {"name": "Sem arroba", "email": "nobody"},
        {"name": " ", "email": new_address()},
        {"nome": "Ana"},
        {"name": "José", "email": jose, "note": "more than we ask for"},
    ]
    body = "\n".join([*map(json.dumps, lines), "", "{not json", "x" * 20_000]).encode()
    async with harness.ingesting():
        answer = await send(harness, body, JSONL)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {
            "lines": 8,
            "accepted": 2,
            "refused": 5,
            "refused_lines": [
                {"line": 2, "code": "email_malformed"},
                {"line": 3, "code": "text_blank"},
                {"line": 4, "code": "wrong_shape"},
                {"line": 7, "code": "malformed_json"},
                {"line": 8, "code": "body_too_large"},
            ],
        }
        await until(harness.is_empty)
    assert await names(harness, rosa, jose) == ["José", "Rosa"]


@pytest.mark.parametrize(
    "heading", ["name,email", "email;nome", "\ufeffE-mail;Telefone;Nome", '"nome","email"']
)
@on_both_buses
async def test_csv_heading_names_the_columns(harness: SignUpHarness, heading: str) -> None:
    address = new_address()
    cells = {"name": "Conceição", "nome": "Conceição", "email": address, "e-mail": address, "telefone": "1"}
    separator = ";" if ";" in heading else ","
    row = separator.join(cells[cell.strip('\ufeff"').lower()] for cell in heading.split(separator))
    async with harness.ingesting():
        answer = await send(harness, f"{heading}\r\n{row}\r\n".encode(), CSV)
        assert (answer.json()["accepted"], answer.json()["refused"]) == (1, 0)
        await until(harness.is_empty)
    assert await names(harness, address) == ["Conceição"]


@on_both_buses
async def test_repeated_file_with_its_key_adds_no_user_twice(harness: SignUpHarness) -> None:
    body = f'name,email\nRosa,{new_address()}\n"Lima, Ana",{new_address()}\n'.encode()
    headers = as_operator(harness, **{"idempotency-key": "march"})
    async with harness.ingesting():
        for _ in range(2):
            assert (await send(harness, body, CSV, **headers)).json()["accepted"] == 2
            await until(harness.is_empty)
    rejected = await harness.fetch("SELECT id FROM sign_ups WHERE rejected IS NOT NULL")
    assert (len(await harness.fetch("SELECT id FROM sign_ups")), len(rejected)) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "body", "status", "code"),
    [
        ("application/json", b"[]", 415, "media_type_unsupported"),
        (CSV, b"first,second\nRosa,rosa@example.com\n", 422, "import_heading_missing"),
    ],
)
@on_one_bus
async def test_invalid_files_are_refused(
    harness: SignUpHarness, kind: str, body: bytes, status: int, code: str
) -> None:
    answer = await send(harness, body, kind)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await harness.is_empty()


@on_one_bus
async def test_import_waits_for_a_full_queue_then_fails(
    harness: SignUpHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "IMPORT_PAUSES_SECONDS", (0.01,) * 3)
    tries: list[int] = []

    async def full(messages: Sequence[Message]) -> list[Exception]:
        tries.append(len(messages))
        return [QueueFull("raffle_queue")] * len(messages)

    with pytest.raises(service.SignUpsFull):
        await _imported(full, _pieces(b'{"name": "Rosa", "email": "rosa@example.com"}\n'))
    assert tries == [1, 1, 1, 1]


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 7):
        yield body[start : start + 7]


@on_one_bus
async def test_long_file_is_never_held_in_memory(harness: SignUpHarness) -> None:
    """The next part is read only after the last one was queued."""
    sent = queued = 0
    ahead: list[int] = []

    async def file() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200):
            ahead.append(sent - queued)
            yield b'{"name": "Ana", "email": "ana@example.com"}\n' * 100
            sent += 100

    async def publish(messages: Sequence[Message]) -> list[None]:
        nonlocal queued
        queued += len(messages)
        return [None] * len(messages)

    await _imported(publish, file())
    assert queued == 20_000
    assert max(ahead) <= service.IMPORTED_AT_ONCE


@on_one_bus
async def test_file_larger_than_the_body_limit_is_accepted(harness: SignUpHarness) -> None:
    lines = [f'{{"name": "Ana", "email": "{new_address()}"}}' for _ in range(15_000)]
    body = "\n".join(lines).encode()
    assert len(body) > ServerLimits().message_bytes
    answer = await send(harness, body, JSONL)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 15_000)


async def _imported(publish: service.PublishMany, file: AsyncIterator[bytes]) -> None:
    progress = service.ImportProgress()
    seal = service.Seal("x")
    await service.import_sign_ups(
        publish, seal, file, kind="jsonl", key=None, language="en", progress=progress
    )


async def run(harness: SignUpHarness, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    settings = harness.parts.settings
    found = {
        "CATRACA_DATABASE_URL": settings.servers.database_url,
        "CATRACA_AMQP_URL": settings.servers.amqp_url,
        "CATRACA_SECRET": settings.signing_secret(),
        "PATH": "/usr/bin:/bin",
    }
    environment = {name: value for name, value in found.items() if value is not None}
    return await run_catraca("users", "import", *arguments, environment=environment, stdin=given)


@on_both_buses
async def test_command_imports_a_file_twice_and_adds_users_once(
    harness: SignUpHarness, tmp_path: Path
) -> None:
    rosa = new_address()
    file, refused = tmp_path / "people.csv", tmp_path / "refused.txt"
    file.write_text(f"nome;email\nRosa;{rosa}\nNinguém;no-address\n")
    async with harness.ingesting():
        for _ in range(2):
            code, output, errors = await run(harness, str(file), "--refused", str(refused))
            assert (code, output) == (1, "1 queued, 1 refused, of 3 lines.\n"), errors
            await until(harness.is_empty)
    assert refused.read_text() == "line 3: email_malformed\n"
    assert await names(harness, rosa) == ["Rosa"]
    assert len(await harness.fetch("SELECT id FROM sign_ups")) == 1


@on_one_bus
async def test_command_reads_a_pipe_and_asks_for_a_format(harness: SignUpHarness) -> None:
    line = json.dumps({"name": "Ana", "email": new_address()}).encode()
    code, output, _ = await run(harness, "-", "--format", "jsonl", given=line)
    assert (code, output) == (0, "1 queued, 0 refused, of 1 lines.\n")
    code, _, errors = await run(harness, "-")
    assert code == 2
    assert "give --format csv or jsonl" in errors


@on_one_bus
async def test_command_reports_a_bad_file_in_one_line(harness: SignUpHarness) -> None:
    code, _, errors = await run(harness, "-", "--format", "csv", given=b"first,second\nRosa,x\n")
    assert code == 2
    assert 'The first line of a CSV file must name the columns "name" and "email".' in errors
    assert "Traceback" not in errors
