"""The metrics folder: the first process empties it, later ones do not."""

import os
from pathlib import Path

import pytest

from catraca.roles.metrics import VARIABLE, MetricsFolder


def test_only_the_first_process_empties_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, os.environ[VARIABLE])  # restored after the test
    left_over = tmp_path / "metrics/counter_1.db"
    left_over.parent.mkdir()
    left_over.write_bytes(b"old")
    first, second = MetricsFolder(tmp_path), MetricsFolder(tmp_path)
    assert not first.in_use()
    first.join()
    assert not left_over.exists()
    left_over.write_bytes(b"of the first")
    assert second.in_use()
    second.join()
    assert left_over.exists()


def test_ended_process_keeps_counters_and_loses_gauges(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path)
    for name in ("counter_7.db", "gauge_livesum_7.db", "gauge_livesum_8.db"):
        (folder.path / name).touch()
    folder.forget(7)
    assert {path.name for path in folder.path.iterdir()} == {"counter_7.db", "gauge_livesum_8.db"}
