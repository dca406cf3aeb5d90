"""What is measured, against which baseline, and the wanted ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.events.load import KEPT_FEW, KEPT_MANY, EventLoad, RelayLoad
from bench.geofences.fences import FENCES, FenceLoad, PreparedLoad
from bench.geofences.requests import LandPlace, WishLoad
from bench.live.loads import SOCKETS, BroadcastLoad, DeliveryLoad, LivePlace
from bench.location.nearby import FEW_DRIVERS, MANY_DRIVERS, NearbyLoad
from bench.location.pings import GeoaddLoad, PingLoad
from bench.matching.fixtures import FEW_OPEN, MANY_OPEN
from bench.matching.load import MatchLoad
from bench.rides.accepts import AcceptLoad, PgbenchLoad
from bench.rides.crowd import CROWD, CrowdLoad
from bench.scheduling.booking import CROWD as SLOT_CROWD
from bench.scheduling.booking import BookingLoad, SlotCrowdLoad
from bench.scheduling.pgbench import InsertLoad
from bench.scheduling.world import WORKERS_OF_A_SERVICE
from bench.server_processes import Server
from bench.sign_ups.load import FEW_ROWS, MANY_ROWS, SignUpLoad
from bench.wrk import KEYED_POST, PLAIN_POST, SIGN_UP, HttpLoad

RELAY_ROW = f"relay with {KEPT_MANY:,} sent events kept"
ACCEPT_ROW = "accept over HTTP, distinct rides"
NEARBY_ROW = f"nearby, 100 drivers in reach, {MANY_DRIVERS:,} online, by p99"
MATCH_ROW = f"rides requested to matches, {MANY_OPEN:,} others open"
LIVE_ROW = f"live: deliveries from committed row to client, {SOCKETS} sockets, two APIs"
FENCE_ROW = f"fences of a place, among {FENCES:,}"
COMMUNITY_ROWS = (
    "community ride requested, no driver at home, to 202",
    "community ride confirmed to 201",
)
SLOT_ROW = f"booking over HTTP, {SLOT_CROWD} clients, one slot"
MANY_PEOPLE_ROW = f"sign-ups to rows with {MANY_ROWS:,} people"


class Load(Protocol):
    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float: ...


@dataclass(frozen=True, slots=True)
class Row:
    """`measured` as a share of `baseline`, both taken in turns within one run."""

    name: str
    against: str
    # None: measured only, without a target.
    want: float | None
    measured: Load
    baseline: Load


@dataclass(frozen=True, slots=True)
class Servers:
    """The addresses of one run's servers, and a caller's token for the full one."""

    bare_url: str
    full_url: str
    token: str
    database_url: str
    amqp_url: str
    # Databases with few and with many events kept after sending.
    few_kept_url: str
    many_kept_url: str
    # The full server on RabbitMQ, and databases with few and with many people.
    full_on_rabbitmq_url: str
    few_people_url: str
    many_people_url: str
    # The full server's database and secret, to insert rides and sign tokens.
    full_database_url: str
    secret: str
    redis_url: str
    # Servers with few and with many drivers.
    few_drivers_url: str
    many_drivers_url: str
    # Databases, each with a Redis, with few and with many open rides.
    few_open: tuple[str, str]
    many_open: tuple[str, str]
    # Two APIs with sockets and two bare servers; None if not measured.
    live: tuple[LivePlace, Sequence[Server]] | None
    # A server with many communities; None if not measured.
    land: LandPlace | None
    # The full server without Redis; empty if not measured.
    without_redis_url: str


def rows(servers: Servers) -> list[Row]:
    return [
        *_http_rows(servers),
        *_ride_rows(servers),
        *_matching_rows(servers),
        *_location_rows(servers),
        *_community_rows(servers),
        *_booking_rows(servers),
        *_live_rows(servers),
        *_event_rows(servers),
        *_sign_up_rows(servers),
    ]


def _http_rows(servers: Servers) -> list[Row]:
    caller = {"Authorization": f"Bearer {servers.token}", "Content-Type": "application/json"}
    anyone = {"Content-Type": "application/json"}
    return [
        Row(
            "no-op GET with auth and limits",
            "the same route bare",
            0.5,
            HttpLoad(f"{servers.full_url}/noop", caller),
            HttpLoad(f"{servers.bare_url}/noop", anyone),
        ),
        Row(
            "no-op POST with an idempotency key",
            "the same route bare",
            0.25,
            HttpLoad(f"{servers.full_url}/noop", caller, KEYED_POST),
            HttpLoad(f"{servers.bare_url}/noop", anyone, PLAIN_POST),
        ),
    ]


def _ride_rows(servers: Servers) -> list[Row]:
    full = (servers.full_url, servers.full_database_url, servers.secret)
    return [
        Row(
            ACCEPT_ROW,
            "pgbench running the same SQL",
            0.4,
            AcceptLoad(*full),
            PgbenchLoad(servers.full_database_url),
        ),
        Row(
            f"accept over HTTP, {CROWD:,} drivers, one ride",
            "a no-op POST of the same server and callers",
            0.4,
            CrowdLoad(*full),
            CrowdLoad(*full, no_op_path="/noop/open"),
        ),
    ]


def _matching_rows(servers: Servers) -> list[Row]:
    return [
        Row(
            MATCH_ROW,
            f"with {FEW_OPEN:,} open",
            0.9,
            MatchLoad(*servers.many_open, servers.secret),
            MatchLoad(*servers.few_open, servers.secret),
        )
    ]


def _location_rows(servers: Servers) -> list[Row]:
    few_drivers = NearbyLoad(servers.few_drivers_url, servers.secret, FEW_DRIVERS)
    return [
        Row(
            "pings over HTTP, lists of 100, distinct drivers",
            "pipelined GEOADD, redis-benchmark",
            0.1,
            PingLoad(servers.full_url, servers.full_database_url, servers.redis_url, servers.secret),
            GeoaddLoad(servers.redis_url),
        ),
        Row(
            NEARBY_ROW,
            f"with {FEW_DRIVERS:,} online",
            0.5,
            NearbyLoad(servers.many_drivers_url, servers.secret, MANY_DRIVERS, beside=few_drivers),
            few_drivers,
        ),
    ]


def _community_rows(servers: Servers) -> list[Row]:
    lookup = Row(FENCE_ROW, "one bare test of one prepared fence", 0.2, FenceLoad(), PreparedLoad())
    if servers.land is None:
        return [lookup]
    asked, confirmed = COMMUNITY_ROWS
    plain, against = WishLoad("plain", servers.land), "a plain ride requested to 201, same server"
    return [
        lookup,
        Row(asked, against, None, WishLoad("ask", servers.land), plain),
        Row(confirmed, against, None, WishLoad("confirm", servers.land), plain),
    ]


def _booking_rows(servers: Servers) -> list[Row]:
    full = (servers.full_url, servers.full_database_url, servers.secret)
    inserted, against = InsertLoad(*full), "pgbench inserting the same rows"
    no_op, callers = SlotCrowdLoad(*full, no_op_path="/noop"), "a no-op POST with a key, same callers"
    rows = [
        Row("booking over HTTP, distinct workers", against, 0.3, BookingLoad(*full), inserted),
        Row(
            f"booking over HTTP, any of {WORKERS_OF_A_SERVICE} workers",
            against,
            None,
            BookingLoad(*full, any_worker=True),
            inserted,
        ),
        Row(SLOT_ROW, callers, None, SlotCrowdLoad(*full), no_op),
    ]
    if servers.without_redis_url:
        without = SlotCrowdLoad(servers.without_redis_url, servers.full_database_url, servers.secret)
        rows.append(Row(f"{SLOT_ROW}, Redis away", callers, None, without, no_op))
    return rows


def _live_rows(servers: Servers) -> list[Row]:
    if servers.live is None:
        return []
    place, bare = servers.live
    against = "two bare uvicorns that send the same bytes to as many"
    return [Row(LIVE_ROW, against, None, DeliveryLoad(place), BroadcastLoad(bare))]


def _event_rows(servers: Servers) -> list[Row]:
    postgres, rabbitmq = (servers.database_url, None), (servers.database_url, servers.amqp_url)
    return [
        Row(
            "committed row to handled event, PostgreSQL bus",
            "bare publish and consume, leased rows",
            0.4,
            EventLoad("pipeline", *postgres, events_a_second=8000),
            EventLoad("bare", *postgres, events_a_second=30000),
        ),
        Row(
            "committed row to handled event, RabbitMQ",
            "bare publish and consume, aio-pika",
            0.4,
            EventLoad("pipeline", *rabbitmq, events_a_second=2000),
            EventLoad("bare", *rabbitmq, events_a_second=3000),
        ),
        Row(
            RELAY_ROW,
            f"with {KEPT_FEW:,} kept",
            0.9,
            RelayLoad(servers.many_kept_url),
            RelayLoad(servers.few_kept_url),
        ),
    ]


def _sign_up_rows(servers: Servers) -> list[Row]:
    anyone = {"Content-Type": "application/json"}
    no_op = HttpLoad(f"{servers.full_url}/noop/open", anyone, PLAIN_POST)
    few, many = (servers.few_people_url, None), (servers.many_people_url, None)
    on_rabbitmq = (servers.few_people_url, servers.amqp_url)
    return [
        Row(
            "sign-ups over HTTP, PostgreSQL bus",
            "a no-op POST of the same server, open and limited too",
            0.3,
            HttpLoad(f"{servers.full_url}/v1/users", anyone, SIGN_UP),
            no_op,
        ),
        Row(
            "sign-ups over HTTP, RabbitMQ",
            "the same no-op POST",
            0.3,
            HttpLoad(f"{servers.full_on_rabbitmq_url}/v1/users", anyone, SIGN_UP),
            no_op,
        ),
        Row(
            "sign-ups from queue to rows, RabbitMQ",
            "a bare consumer that acknowledges in bulk",
            0.55,
            SignUpLoad("pipeline", *on_rabbitmq, expected_per_second=8000),
            SignUpLoad("bare", *on_rabbitmq, expected_per_second=8000),
        ),
        Row(
            "sign-ups from queue to rows, RabbitMQ, in batches",
            "one row a message, a pool of 16",
            3,
            SignUpLoad("pipeline", *on_rabbitmq, expected_per_second=8000),
            SignUpLoad("one-by-one", *on_rabbitmq, expected_per_second=2000),
        ),
        Row(
            "sign-ups from queue to rows, PostgreSQL bus",
            "a bare loop: delete a batch, insert it into the same table",
            0.5,
            SignUpLoad("pipeline", *few, expected_per_second=12000),
            SignUpLoad("bare", *few, expected_per_second=20000),
        ),
        Row(
            MANY_PEOPLE_ROW,
            f"with {FEW_ROWS:,}",
            0.9,
            SignUpLoad("pipeline", *many, expected_per_second=12000),
            SignUpLoad("pipeline", *few, expected_per_second=12000),
        ),
    ]
