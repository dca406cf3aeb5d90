"""The workers' log: all lines in the file, warnings and errors on the console, rotation."""

import os
from pathlib import Path

import pytest

from catraca.roles import worker_log
from catraca.roles.worker_log import WorkerLog


def test_warnings_errors_and_plain_lines_are_shown(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/catraca.log").write_text('{"event":"old","level":"error"}\n')
    log, shown = WorkerLog(tmp_path), []
    lines = [
        b'{"event":"request","level":"info"}',
        b'{"event":"pruning_postponed","level":"warning","code":"busy","timestamp":"now"}',
        b'{"event":"failed","level":"error","exception":[{"type":"ValueError","frames":["a.py:1 f"]}]}',
        b"Fatal Python error: Segmentation fault",
    ]
    os.write(log.fileno(), b"\n".join(lines) + b"\n" + b'{"event":"half')
    log.show_new(shown.append)
    assert shown == [
        "warning pruning_postponed code=busy",
        "error failed (ValueError at a.py:1 f)",
        "Fatal Python error: Segmentation fault",
    ]
    os.write(log.fileno(), b'","level":"error"}\n')
    log.show_new(shown.append)
    assert shown[3:] == ["error half"]


def test_many_warnings_are_shown_as_a_number(tmp_path: Path) -> None:
    log, shown = WorkerLog(tmp_path), []
    os.write(log.fileno(), b'{"event":"w","level":"warning"}\n' * 100)
    log.show_new(shown.append)
    assert len(shown) == 6
    assert "95 more" in shown[-1]


def test_large_log_file_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_log, "LOG_BYTES", 100)
    log = WorkerLog(tmp_path)
    for text in (b"first\n", b"second\n"):
        os.write(log.fileno(), text * 50)
        log.show_new(lambda _: None)
        log.rotate_if_large()
        assert log.path.stat().st_size == 0
        assert log.path.with_name("catraca.log.1").read_bytes() == text * 50
    os.write(log.fileno(), b"third\n")
    assert log.path.read_bytes() == b"third\n"


def test_symbolic_link_as_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/catraca.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        WorkerLog(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
