"""A benchmark: `python -m bench.matching COUNT`, with the settings in the environment."""

import asyncio
import os
import sys
import tempfile

os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import uvloop

from bench.matching.pipeline import matches_per_second
from catraca.platform.telemetry import configure_logging
from catraca.settings import read_settings

if __name__ == "__main__":
    configure_logging("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(matches_per_second(read_settings(), count=int(sys.argv[1]))))
