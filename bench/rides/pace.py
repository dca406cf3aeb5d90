"""Time of an accept at a steady pace, with the server half busy."""

import asyncio
from time import perf_counter

from bench.pace import send_paced
from bench.rides.accepts import accept_request
from bench.rides.world import make_rides

PACED_SECONDS = 5
CONNECTIONS = 64


def accept_milliseconds(
    url: str, database_url: str, secret: str, *, per_second: float
) -> tuple[float, float]:
    """Return median and 99th percentile, measured from the time each request was due."""
    rides = asyncio.run(make_rides(database_url, int(per_second * PACED_SECONDS)))
    requests = [accept_request(number, secret) for number in rides]
    taken: list[float] = []
    asyncio.run(
        send_paced(
            url,
            requests,
            lambda due_at, _: taken.append(perf_counter() - due_at),
            per_second=per_second,
            connections=CONNECTIONS,
            status=200,
        )
    )
    taken.sort()
    return taken[len(taken) // 2] * 1000, taken[len(taken) * 99 // 100] * 1000
