"""Logs: one JSON line per event, with the request id, without personal data.

Each program runs in its own process; the test checks everything that it wrote.
"""

import ast
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

import catraca
from catraca.platform.redaction import is_personal, masked
from tests.test_tidy import import_everything

SECRETS = ("maria@example.org", "Maria da Silva", "s3cr3t-t0ken", "+55 11 91234-5678", "hunter2")
BEGIN = """
    import asyncio, gc, logging, sys, threading, warnings
    import structlog
    from catraca.platform.telemetry import configure_logging
    configure_logging({level!r})
    log = structlog.get_logger()
    EMAIL, NAME, TOKEN, PHONE, PASSWORD = {secrets!r}
"""


def log_lines(program: str, *, level: str = "info", code: int = 0) -> list[dict[str, Any]]:
    """Run a program and return its log lines; asserts that they have no personal data."""
    begin = BEGIN.format(level=level, secrets=SECRETS)
    source = textwrap.dedent(begin) + textwrap.dedent(program)
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert ran.returncode == code, ran.stderr
    for secret in SECRETS:
        assert secret not in ran.stderr + ran.stdout
    assert ran.stdout == ""
    return [json.loads(line) for line in ran.stderr.splitlines()]


def test_event_is_one_line_with_time_level_and_request_id() -> None:
    (line,) = log_lines("""
        structlog.contextvars.bind_contextvars(request_id="r-1")
        log.info("ride_accepted", ride_id=7, reason="two\\nlines")
    """)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "ride_accepted",
        "level": "info",
        "request_id": "r-1",
        "ride_id": 7,
        "reason": "two\nlines",
    }


def test_request_ids_stay_with_their_request() -> None:
    lines = log_lines("""
        async def request(number):
            structlog.contextvars.bind_contextvars(request_id=f"r-{number}")
            for step in range(3):
                await asyncio.sleep(0)
                log.info("step", number=number)
                logging.getLogger("library").warning("step %d", number)
        async def all():
            await asyncio.gather(*(request(number) for number in range(5)))
        asyncio.run(all())
    """)
    assert len(lines) == 30
    for line in lines:
        number = line.get("number", line["event"][-1])
        assert line["request_id"] == f"r-{number}"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", {"debug", "info", "warning", "error"}),
        ("info", {"info", "warning", "error"}),
        ("warning", {"warning", "error"}),
        ("error", {"error"}),
    ],
)
def test_log_level_applies_to_us_and_libraries(level: str, expected: set[str]) -> None:
    lines = log_lines(
        """
        for level in ("debug", "info", "warning", "error"):
            getattr(log, level)("ours")
            getattr(logging.getLogger("library"), level)("theirs")
        """,
        level=level,
    )
    assert {line["level"] for line in lines if line["event"] == "ours"} == expected
    # At debug level libraries log what they send, so they stop at info.
    assert {line["level"] for line in lines if line["event"] == "theirs"} == expected - {"debug"}


def test_personal_fields_are_masked_at_any_depth() -> None:
    (line,) = log_lines("""
        user = {"name": NAME, "phones": [{"phone": PHONE}]}
        deep = {"a": {"b": {"c": {"d": {"e": EMAIL}}}}}
        log.info("defect", email=EMAIL, status_token=TOKEN, Authorization=f"Bearer {TOKEN}", user=user,
                 deep=deep, queue_name="kept")
    """)
    assert line["email"] == line["status_token"] == line["Authorization"] == "[masked]"
    assert line["user"] == {"name": "[masked]", "phones": [{"phone": "[masked]"}]}
    assert line["queue_name"] == "kept"


def test_keys_that_only_look_personal_are_kept() -> None:
    kept = {"constraint_name": 1, "tokens": 2, "route": 3, "plates_seen": 4}
    assert masked(kept) == kept
    assert all(map(is_personal, ("client-secret", "X-Authorization", "HOME_ADDRESS", "password_hash")))


def test_errors_are_logged_without_messages() -> None:
    lines = log_lines("""
        import asyncpg, pydantic
        class Sign(pydantic.BaseModel):
            age: int
        def taken():
            error = asyncpg.UniqueViolationError(f"duplicate key {EMAIL}")
            error.detail, error.constraint_name = f"Key (email)=({EMAIL}) already exists.", "users_email_key"
            error.sqlstate, error.table_name = "23505", f"{EMAIL}"
            raise error
        failing = (
            lambda: Sign(age=EMAIL), lambda: {}[TOKEN], lambda: int(PASSWORD), lambda: open(f"/{TOKEN}")
        )
        for story in (taken, *failing):
            try:
                story()
            except Exception as error:
                log.exception("failed", error=error)
        try:
            try:
                taken()
            except Exception as error:
                raise RuntimeError(NAME) from error
        except RuntimeError:
            log.exception("failed")
        log.error("failed", exc_info=ExceptionGroup(NAME, [ValueError(EMAIL), KeyError(TOKEN)]))
        log.error("failed", exc_info=SystemExit(f"bye {NAME}"))
    """)
    first = lines[0]["exception"][0]
    assert first["type"] == "asyncpg.exceptions.UniqueViolationError"
    assert (first["sqlstate"], first["constraint_name"]) == ("23505", "users_email_key")
    assert "table_name" not in first, "a fact that does not look like a name is withheld"
    assert first["frames"][-1].endswith(" taken")
    assert lines[0]["error"] == "<UniqueViolationError>"
    kinds = [line["exception"][0]["type"].rpartition(".")[2] for line in lines]
    assert kinds == [
        "UniqueViolationError",
        "ValidationError",
        "KeyError",
        "ValueError",
        "FileNotFoundError",
        "RuntimeError",
        "ExceptionGroup",
        "SystemExit",
    ]
    assert len(lines[5]["exception"]) == 2, "the cause is told as well"
    assert [part[0]["type"] for part in lines[6]["exception"][0]["parts"]] == [
        "builtins.ValueError",
        "builtins.KeyError",
    ]


def test_values_in_messages_of_libraries_are_masked() -> None:
    lines = log_lines("""
        library = logging.getLogger("library")
        library.warning("%s logged in from %s after %d tries", EMAIL, PHONE, 3)
        library.warning('%(who)s - "GET %(path)s" [accepted]', {"who": NAME, "path": f"/ws?ticket={TOKEN}"})
        library.warning(f"cannot reach amqp://user:{PASSWORD}@localhost")
        library.warning(f"mail for {EMAIL} bounced, call {PHONE}")
        library.warning(f"unexpected value {TOKEN!r} in field")
        library.warning("broken %d format", NAME)
        library.warning("line one\\nline two " + NAME)
        library.error(ValueError(NAME))
        library.error("")
        try:
            raise ValueError(f"no such person as {NAME}")
        except ValueError as error:
            library.exception(f"failed: {error}")
            library.error("failed: %s", error, exc_info=True)
    """)
    assert [line["event"] for line in lines] == [
        "[masked] logged in from [masked] after 3 tries",
        '[masked] - "GET [masked]" [accepted]',
        "cannot reach [masked]",
        "mail for [masked] bounced, call [masked]",
        "unexpected value",
        "broken %d format",
        "line one",
        "<ValueError>",
        "",
        "failed:",
        "failed: [masked]",
    ]
    assert all(line["logger"] == "library" for line in lines)
    assert lines[-1]["exception"][0]["type"] == "builtins.ValueError"


def test_uncaught_errors_are_logged_as_json() -> None:
    lines = log_lines("""
        async def forgotten():
            raise KeyError(TOKEN)
        def called(_):
            raise ValueError(EMAIL)
        async def main():
            loop = asyncio.get_running_loop()
            loop.call_soon(called, PASSWORD)
            task = asyncio.create_task(forgotten(), name=NAME)
            await asyncio.sleep(0.01)
            del task
            gc.collect()
        asyncio.run(main())
        class Closing:
            def __del__(self):
                raise ValueError(PHONE)
        Closing()
        def thread():
            raise ValueError(NAME)
        worker = threading.Thread(target=thread, name=NAME)
        worker.start()
        worker.join()
        warnings.warn_explicit(f"do not call {EMAIL}", UserWarning, "story.py", 7)
    """)
    assert [line["event"].split(" ")[0] for line in lines[:4]] == [
        "Exception",
        "Task",
        "error_ignored",
        "thread_failed",
    ]
    assert [line["exception"][0]["type"] for line in lines[:4]] == [
        "builtins.ValueError",
        "builtins.KeyError",
        "builtins.ValueError",
        "builtins.ValueError",
    ]
    assert lines[4]["event"] == "story.py:7: UserWarning: do not call [masked]"


def test_failed_process_logs_the_error_without_its_message() -> None:
    (line,) = log_lines("raise ValueError(EMAIL)", code=1)
    assert (line["event"], line["level"]) == ("process_failed", "critical")


def test_uvicorn_errors_are_logged_without_addresses() -> None:
    lines = log_lines("""
        error = logging.getLogger("uvicorn.error")
        error.info('%s - "WebSocket %s" [accepted]', PHONE, f"/v1/ws?ticket={TOKEN}")
        logging.getLogger("uvicorn.access").info('%s - "%s %s"', PHONE, "GET", f"/?token={TOKEN}")
        try:
            raise ValueError(EMAIL)
        except ValueError:
            error.exception("Exception in ASGI application\\n")
    """)
    assert [line["event"] for line in lines] == ["Exception in ASGI application"]


def test_values_without_a_json_form_do_not_lose_the_line() -> None:
    lines = log_lines("""
        import uuid, datetime, pathlib, decimal
        log.info("odd", half="\\ud800", big=2**80, nan=float("nan"), raw=b"x", path=pathlib.Path("/tmp"))
        log.info("odd", object=object(), keys={(1, 2): 3}, id=uuid.UUID(int=1), set={1})
        loop = []
        loop.append(loop)
        log.info("odd", loop=loop)
    """)
    assert [line["event"] for line in lines] == ["odd"] * 3
    assert lines[1]["id"] == "00000000-0000-0000-0000-000000000001"
    assert lines[1]["object"] == "<object>"


def test_a_full_disk_does_not_fail_the_work() -> None:
    program = textwrap.dedent(BEGIN.format(level="info", secrets=SECRETS)) + "log.info('x'); print('worked')"
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=full, timeout=60)
    assert ran.stdout == b"worked\n"


# Metrics: the conventions of Prometheus, checked for every registered metric.

METRIC_NAME = re.compile(r"catraca_[a-z_]+")
BASE_UNITS = ("_seconds", "_bytes", "_ratio", "_meters", "_cents", "_messages")
OTHER_UNITS = re.compile(
    r"_(ms|milliseconds|microseconds|minutes|hours|days|kb|mb|kilobytes|percent|km)(_|$)"
)
ID_LABELS = re.compile(
    r"(^|_)(id|uuid|key|email|phone|name|user|driver|passenger|token|address|ip|path|url)$"
)


def our_metrics() -> list[MetricWrapperBase]:
    import_everything()
    found = {id(metric): metric for metric in REGISTRY._names_to_collectors.values()}
    return [metric for metric in found.values() if isinstance(metric, MetricWrapperBase)]


def test_metrics_are_named_in_base_units() -> None:
    metrics = our_metrics()
    assert metrics
    for metric in metrics:
        name, kind = metric._name, metric._type
        assert METRIC_NAME.fullmatch(name), name
        assert not OTHER_UNITS.search(name), name
        assert metric._documentation.endswith("."), name
        # The library removes `_total` from a counter's name and adds it to the output.
        assert not name.endswith("_total"), name
        if kind == "histogram":
            assert name.endswith(BASE_UNITS), name


def test_counters_are_written_with_total_in_the_source() -> None:
    strays = [
        f"{path.name}:{node.lineno}"
        for path in Path(catraca.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Counter"
        # A metric's name is a literal; `collections.Counter` is something else.
        if node.args and isinstance(name := getattr(node.args[0], "value", None), str)
        if not name.endswith("_total")
    ]
    assert not strays


def test_labels_have_few_values() -> None:
    for metric in our_metrics():
        for label in metric._labelnames:
            assert not ID_LABELS.search(label), f"{metric._name} would make a series for every {label}"
