"""Memory of an API process after many requests."""

import asyncio
from contextlib import ExitStack

from rich.table import Table

from bench.live.costs import resident_bytes
from bench.server_processes import serve
from bench.stage import CONNECTIONS, Stage, caller_headers
from bench.wrk import KEYED_POST, HttpLoad
from tests.servers import until

REQUESTS = (0, 100_000, 1_000_000)
MEMORY = f"memory: an API process after {max(REQUESTS):,} requests"
TURN_SECONDS = 5


def request_memory_table(stage: Stage) -> Table:
    """No-op GETs and keyed POSTs in turns, against a fresh process."""
    megabytes: list[float] = []
    with ExitStack() as running:
        database_url = stage.new_database("memory")
        server = serve(stage.stack, running, "bench.server", "full", CATRACA_DATABASE_URL=database_url)
        asyncio.run(until(server.answers))
        url, headers = f"{server.url}/noop", caller_headers()
        loads = (HttpLoad(url, headers), HttpLoad(url, headers, KEYED_POST))
        sent = 0.0
        for total in REQUESTS:
            while sent < total:
                sent += TURN_SECONDS * sum(
                    load.per_second(seconds=TURN_SECONDS, connections=CONNECTIONS, folder=stage.folder)
                    for load in loads
                )
            megabytes.append(resident_bytes(server.pid) / 1e6)
    table = Table(title="Memory of an API process in megabytes, after no-op GETs and keyed POSTs in turns")
    for total in REQUESTS:
        table.add_column(f"{total:,} requests" if total else "fresh", justify="right")
    table.add_row(*(f"{one:.1f}" for one in megabytes))
    return table
