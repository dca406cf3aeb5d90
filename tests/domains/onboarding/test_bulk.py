"""A whole file of sign-ups: by HTTP as it comes, and from the command line."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from catraca.domains.onboarding import service
from catraca.platform.auth import sign_token
from catraca.platform.bus import Message, QueueFull
from catraca.platform.http.server import ServerLimits
from tests.domains.onboarding.desk import Desk, an_address, on_both_buses
from tests.servers import until

PATH = "/v1/users/bulk"
CSV, JSONL = "text/csv; charset=utf-8", "application/x-ndjson"

# The bus is none of its business: what it knows is a function that publishes.
on_one_bus = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


def as_operator(desk: Desk, **headers: str) -> dict[str, str]:
    secret = desk.parts.settings.signing_secret()
    token = sign_token(secret, subject=uuid4(), roles=["operator"], lifetime=timedelta(hours=1))
    return {"authorization": f"Bearer {token}", **headers}


async def send(desk: Desk, body: bytes, kind: str, **headers: str) -> httpx.Response:
    given = as_operator(desk) | headers
    return await desk.api.post(PATH, content=body, headers={"content-type": kind, **given})


async def names(desk: Desk, *addresses: str) -> list[str]:
    rows = await desk.fetch("SELECT name FROM users WHERE email = ANY ($1) ORDER BY name", list(addresses))
    return [row["name"] for row in rows]


@on_both_buses
async def test_good_lines_become_people_and_bad_ones_are_told_of(desk: Desk) -> None:
    rosa, jose = an_address(), an_address()
    lines = [
        {"name": "Rosa", "email": rosa},
        {"name": "Sem arroba", "email": "nobody"},
        {"name": " ", "email": an_address()},
        {"nome": "Ana"},
        {"name": "José", "email": jose, "note": "more than we ask for"},
    ]
    body = "\n".join([*map(json.dumps, lines), "", "{not json", "x" * 20_000]).encode()
    async with desk.ingesting():
        answer = await send(desk, body, JSONL)
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
        await until(desk.is_empty)
    assert await names(desk, rosa, jose) == ["José", "Rosa"]


@pytest.mark.parametrize(
    "heading", ["name,email", "email;nome", "\ufeffE-mail;Telefone;Nome", '"nome","email"']
)
@on_both_buses
async def test_a_spreadsheet_says_which_column_is_which(desk: Desk, heading: str) -> None:
    address = an_address()
    cells = {"name": "Conceição", "nome": "Conceição", "email": address, "e-mail": address, "telefone": "1"}
    separator = ";" if ";" in heading else ","
    row = separator.join(cells[cell.strip('\ufeff"').lower()] for cell in heading.split(separator))
    async with desk.ingesting():
        answer = await send(desk, f"{heading}\r\n{row}\r\n".encode(), CSV)
        assert (answer.json()["accepted"], answer.json()["refused"]) == (1, 0)
        await until(desk.is_empty)
    assert await names(desk, address) == ["Conceição"]


@on_both_buses
async def test_a_file_sent_again_with_its_key_signs_nobody_up_twice(desk: Desk) -> None:
    body = f'name,email\nRosa,{an_address()}\n"Lima, Ana",{an_address()}\n'.encode()
    headers = as_operator(desk, **{"idempotency-key": "march"})
    async with desk.ingesting():
        for _ in range(2):
            assert (await send(desk, body, CSV, **headers)).json()["accepted"] == 2
            await until(desk.is_empty)
    rejected = await desk.fetch("SELECT id FROM sign_ups WHERE rejected IS NOT NULL")
    assert (len(await desk.fetch("SELECT id FROM sign_ups")), len(rejected)) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "body", "status", "code"),
    [
        ("application/json", b"[]", 415, "media_type_unsupported"),
        (CSV, b"first,second\nRosa,rosa@example.com\n", 422, "import_heading_missing"),
    ],
)
@on_one_bus
async def test_what_is_no_such_file_is_refused(
    desk: Desk, kind: str, body: bytes, status: int, code: str
) -> None:
    answer = await send(desk, body, kind)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await desk.is_empty()


@on_one_bus
async def test_while_the_queue_is_full_the_file_waits_and_then_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
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
async def test_a_long_file_is_never_held_as_a_whole(desk: Desk) -> None:
    """What comes next is asked for only when what came before has been queued."""
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
async def test_a_file_larger_than_any_other_body_is_taken(desk: Desk) -> None:
    lines = [f'{{"name": "Ana", "email": "{an_address()}"}}' for _ in range(15_000)]
    body = "\n".join(lines).encode()
    assert len(body) > ServerLimits().message_bytes
    answer = await send(desk, body, JSONL)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 15_000)


async def _imported(publish: service.PublishMany, file: AsyncIterator[bytes]) -> None:
    progress = service.ImportProgress()
    seal = service.Seal("x")
    await service.import_sign_ups(
        publish, seal, file, kind="jsonl", key=None, language="en", progress=progress
    )


def run(desk: Desk, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    settings = desk.parts.settings
    found = {
        "CATRACA_DATABASE_URL": settings.servers.database_url,
        "CATRACA_AMQP_URL": settings.servers.amqp_url,
        "CATRACA_SECRET": settings.signing_secret(),
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.run(
        [sys.executable, "-m", "catraca", "users", "import", *arguments],
        input=given,
        env={name: value for name, value in found.items() if value is not None},
        capture_output=True,
        check=False,
    )


async def in_thread(call: Callable[[], subprocess.CompletedProcess[bytes]]):
    return await asyncio.to_thread(call)


@on_both_buses
async def test_the_command_line_takes_a_file_twice_and_signs_up_once(desk: Desk, tmp_path: Path) -> None:
    rosa = an_address()
    file, refused = tmp_path / "people.csv", tmp_path / "refused.txt"
    file.write_text(f"nome;email\nRosa;{rosa}\nNinguém;no-address\n")
    async with desk.ingesting():
        for _ in range(2):
            done = await in_thread(lambda: run(desk, str(file), "--refused", str(refused)))
            assert done.returncode == 1, done.stderr
            assert done.stdout.decode() == "1 queued, 1 refused, of 3 lines.\n"
            await until(desk.is_empty)
    assert refused.read_text() == "line 3: email_malformed\n"
    assert await names(desk, rosa) == ["Rosa"]
    assert len(await desk.fetch("SELECT id FROM sign_ups")) == 1


@on_one_bus
async def test_the_command_line_reads_a_pipe_and_says_what_it_lacks(desk: Desk) -> None:
    line = json.dumps({"name": "Ana", "email": an_address()}).encode()
    done = await in_thread(lambda: run(desk, "-", "--format", "jsonl", given=line))
    assert (done.returncode, done.stdout) == (0, b"1 queued, 0 refused, of 1 lines.\n")
    lost = await in_thread(lambda: run(desk, "-"))
    assert lost.returncode == 2
    assert b"give --format csv or jsonl" in lost.stderr


@on_one_bus
async def test_the_command_line_says_in_a_line_what_is_wrong_with_a_file(desk: Desk) -> None:
    done = await in_thread(lambda: run(desk, "-", "--format", "csv", given=b"first,second\nRosa,x\n"))
    assert done.returncode == 2
    assert b'The first line of a CSV file must name the columns "name" and "email".' in done.stderr
    assert b"Traceback" not in done.stderr
