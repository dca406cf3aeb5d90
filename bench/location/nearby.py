"""The latency of a search for drivers nearby, one request at a time; the slow ones count."""

import http.client
import json
import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit
from uuid import uuid4

from bench.location.world import IN_REACH, RADIUS_METERS, place_at, reach_of_search
from catraca.platform.auth import sign_token

FEW_DRIVERS = 1000
MANY_DRIVERS = 1_000_000
WARM_UP = 50
# The number of evenly spread drivers in a circle varies a little with its place.
FEWEST_FOUND = IN_REACH * 9 // 10


class NearbyLoad:
    """Searches around places all over the map, and records the time of each answer in all turns."""

    def __init__(self, url: str, secret: str, drivers: int, *, beside: "NearbyLoad | None" = None) -> None:
        """`beside`, if given, is measured in turns with this one, so that a slow moment affects both."""
        self.drivers = drivers
        self._url = url
        self._beside = beside
        token = sign_token(secret, subject=uuid4(), roles=["service"], lifetime=timedelta(hours=6))
        self._headers = {"Authorization": f"Bearer {token}"}
        self._taken_seconds: list[float] = []
        self._last_p99_seconds = 0.0

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        """One over the 99th percentile: the rate if all requests were that slow."""
        if self._beside is not None:
            ask_in_turns([self, self._beside], seconds=2 * seconds)
        return 1 / self._last_p99_seconds

    def note(self, taken_seconds: list[float]) -> None:
        self._taken_seconds += taken_seconds
        self._last_p99_seconds = percentile(taken_seconds, 99)

    def milliseconds(self) -> tuple[float, float]:
        """Median and 99th percentile of all turns."""
        return percentile(self._taken_seconds, 50) * 1000, percentile(self._taken_seconds, 99) * 1000

    def connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self._url)
        return http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)

    def ask(self, connection: http.client.HTTPConnection) -> float:
        reach = reach_of_search(self.drivers)
        place = place_at(random.uniform(-reach, reach), random.uniform(-reach, reach))
        query = f"lat={place.lat:.6f}&lng={place.lon:.6f}&radius_m={RADIUS_METERS}&limit={IN_REACH}"
        began = perf_counter()
        connection.request("GET", f"/v1/location/drivers/nearby?{query}", headers=self._headers)
        body = connection.getresponse().read()
        taken = perf_counter() - began
        found = json.loads(body)
        if found.get("source") != "redis" or len(found["drivers"]) < FEWEST_FOUND:
            raise RuntimeError(f"{place}: {body[:200]!r}")
        return taken


def ask_in_turns(loads: Sequence[NearbyLoad], *, seconds: int) -> None:
    """Send one request at a time, to each server in turn."""
    taken: list[list[float]] = [[] for _ in loads]
    connections = [load.connect() for load in loads]
    ends_at = perf_counter() + seconds
    while perf_counter() < ends_at:
        for load, connection, times in zip(loads, connections, taken, strict=True):
            times.append(load.ask(connection))
    for load, connection, times in zip(loads, connections, taken, strict=True):
        connection.close()
        load.note(times[WARM_UP:] or times)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
