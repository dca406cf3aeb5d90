"""A benchmark: `python -m bench.matching COUNT`, with the settings in the environment."""

import asyncio
import os
import sys
import tempfile

os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import msgspec
import uvloop

from bench.matching.pipeline import match_rides
from catraca.platform.telemetry import configure_logging
from catraca.settings import read_settings

if __name__ == "__main__":
    configure_logging("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(match_rides(read_settings(), count=int(sys.argv[1])))
        sys.stdout.buffer.write(msgspec.json.encode(result))
