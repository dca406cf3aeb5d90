"""The requests of a soak in a fixed mix, and the rows that they need."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import cycle
from uuid import uuid4

import asyncpg
import msgspec

from bench.location.world import driver_id, place_of
from bench.rides.accepts import accept_request
from bench.rides.world import OpenRides, insert_rides
from bench.scheduling.booking import PATH, request_of
from bench.scheduling.world import Wish, insert_agendas
from catraca.platform.auth import sign_token
from catraca.platform.clock import now
from catraca.platform.geo import METERS_A_DEGREE

# Of ten requests, in this order.
MIX = ("read", "accept", "read", "nearby", "book", "read", "accept", "ping", "read", "nearby")
DRIVERS = 2000
PINGS_A_LIST = 10
STEP_METERS = 15.0
# Rows are inserted in small transactions, because a large one delays requests.
INSERTED_AT_ONCE = 200


class Requests:
    """Each accept is of a new ride by a new driver, and each booking of a new client for a free hour."""

    def __init__(self, db: asyncpg.Connection, secret: str) -> None:
        self._db = db
        self._secret = secret
        self._next_ride = 1
        service, person = (
            sign_token(secret, subject=uuid4(), roles=[role], lifetime=timedelta(days=1))
            for role in ("service", "passenger")
        )
        self._service_bearer = service
        place = place_of(DRIVERS // 2, DRIVERS)
        near = f"/v1/location/drivers/nearby?lat={place.lat:.6f}&lng={place.lon:.6f}&radius_m=3000&limit=20"
        self._nearby, self._read = _get(near, service), _get("/v1/me", person)
        self._pinged = cycle(range(0, DRIVERS, PINGS_A_LIST))
        self._steps = cycle((0.0, STEP_METERS))

    async def prepare(self, count: int) -> Iterator[bytes]:
        """Insert rows for `count` requests; return the requests, each of which is made when it is taken."""
        each = -(-count // len(MIX))
        rides: list[int] = []
        wishes: list[Wish] = []
        while len(rides) < MIX.count("accept") * each:
            inserted = OpenRides(self._next_ride, INSERTED_AT_ONCE)
            await insert_rides(self._db, inserted)
            self._next_ride += inserted.count
            rides += inserted
        while len(wishes) < MIX.count("book") * each:
            wishes += (await insert_agendas(self._db, INSERTED_AT_ONCE)).wishes(self._secret)
        return self._requests(count, iter(rides), iter(wishes))

    def _requests(self, count: int, rides: Iterator[int], wishes: Iterator[Wish]) -> Iterator[bytes]:
        for number in range(count):
            match MIX[number % len(MIX)]:
                case "accept":
                    yield accept_request(next(rides), self._secret)
                case "book":
                    yield request_of(next(wishes), PATH)
                case "ping":
                    yield self._pings()
                case "nearby":
                    yield self._nearby
                case _:
                    yield self._read

    def _pings(self) -> bytes:
        """Drivers move back and forth, so that no ping repeats the last place."""
        first = next(self._pinged)
        step = (next(self._steps) if first == 0 else 0.0) / METERS_A_DEGREE
        places = {driver: place_of(driver, DRIVERS) for driver in range(first, first + PINGS_A_LIST)}
        body = msgspec.json.encode(
            [
                {"driver_id": driver_id(driver), "lat": place.lat + step, "lng": place.lon, "at": now()}
                for driver, place in places.items()
            ]
        )
        head = (
            "POST /v1/location/pings HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._service_bearer}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _get(path: str, bearer: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: soak\r\nAuthorization: Bearer {bearer}\r\n\r\n".encode()
