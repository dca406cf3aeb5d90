"""A benchmark: `python -m bench.events TASK COUNT`, with the servers' URLs in the environment."""

import asyncio
import os
import sys
import tempfile

os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import uvloop

from bench.events.bare import postgres_per_second, rabbitmq_per_second
from bench.events.fixtures import keep_sent, open_fixture
from bench.events.pipeline import events_per_second, latency_milliseconds, relayed_per_second
from bench.events.timers import lateness_milliseconds
from catraca.platform.telemetry import configure_logging


async def main(what: str, count: int) -> None:
    database_url, amqp_url = os.environ["BENCH_DATABASE_URL"], os.environ.get("BENCH_AMQP_URL")
    match what:
        case "pipeline":
            print(await events_per_second(database_url, amqp_url, count=count))
        case "latency":
            print(*await latency_milliseconds(database_url, amqp_url, count=count))
        case "timers":
            print(*await lateness_milliseconds(database_url, count=count))
        case "relay":
            print(await relayed_per_second(database_url, count=count))
        case "keep":
            async with open_fixture(database_url, None, batch=1) as fixture:
                await keep_sent(fixture.database, count)
        case "bare" if amqp_url:
            print(await rabbitmq_per_second(amqp_url, count=count))
        case "bare":
            print(await postgres_per_second(database_url, count=count))
        case _:
            sys.exit(f"no such measurement: {what}")


if __name__ == "__main__":
    configure_logging("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2])))
