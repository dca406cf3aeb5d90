"""One measurement: `python -m bench.sign_ups WHAT COUNT`, with the servers' URLs in the environment."""

import asyncio
import gc
import os
import sys
import tempfile

os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="catraca-bench-"))

import uvloop

from bench.sign_ups.bare import one_by_one_per_second, postgres_per_second, rabbitmq_per_second
from bench.sign_ups.pipeline import rows_per_second
from bench.sign_ups.world import add_users
from catraca.cli import OBJECTS_BETWEEN_COLLECTIONS
from catraca.platform.telemetry import configure_logging
from catraca.roles.runner import settle_memory


async def main(what: str, count: int) -> None:
    database_url, amqp_url = os.environ["BENCH_DATABASE_URL"], os.environ.get("BENCH_AMQP_URL")
    match what:
        case "pipeline":
            print(await rows_per_second(database_url, amqp_url, count=count))
        case "users":
            await add_users(database_url, count)
        case "one-by-one" if amqp_url:
            print(await one_by_one_per_second(database_url, amqp_url, count=count))
        case "bare" if amqp_url:
            print(await rabbitmq_per_second(amqp_url, count=count))
        case "bare":
            print(await postgres_per_second(database_url, count=count))
        case _:
            sys.exit(f"no such measurement: {what}")


if __name__ == "__main__":
    configure_logging("warning")
    # As in every serving process.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    settle_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2])))
