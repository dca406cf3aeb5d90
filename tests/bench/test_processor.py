"""Processor time of the processes behind a load."""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.processor import note, noting, pids_at, take_noted

PORT = 10_001
BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


def test_processor_time_of_every_process_of_the_port_is_noted(tmp_path: Path) -> None:
    environment = os.environ | {"CATRACA_PORT": str(PORT)}
    began = perf_counter()
    with noting(tmp_path, f"http://127.0.0.1:{PORT}"):
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", BUSY], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        found = pids_at(f"http://127.0.0.1:{PORT}")
    elapsed_seconds = perf_counter() - began
    for worker in workers:
        worker.communicate(b"\n")
    assert sorted(found) == sorted(worker.pid for worker in workers)
    # Both worked for 0.3 seconds, and the kernel counts hundredths.
    assert take_noted()["API"] * elapsed_seconds > 0.5


def test_noted_time_is_taken_once() -> None:
    note({"API": 3.0}, elapsed_seconds=2.0)
    assert take_noted() == {"API": 1.5}
    assert take_noted() == {}
