"""What is measured, against which baseline, and the wanted ratio."""

from bench.delays import accept_delay, fence_delay, live_figures, nearby_delays, slot_delays, wish_delays
from bench.events.load import KEPT_FEW, KEPT_MANY, EventLoad, RelayLoad
from bench.geofences.fences import FENCES, FenceLoad, PreparedLoad
from bench.geofences.requests import WishLoad
from bench.live.loads import SOCKETS, BroadcastLoad, DeliveryLoad
from bench.location.nearby import FEW_DRIVERS, MANY_DRIVERS, NearbyLoad
from bench.location.pings import GeoaddLoad, PingLoad
from bench.matching.fixtures import FEW_OPEN, MANY_OPEN
from bench.matching.load import MatchLoad
from bench.measurement import Load, Row
from bench.rides.accepts import AcceptLoad, PgbenchLoad
from bench.rides.crowd import CROWD, CrowdLoad
from bench.scheduling.booking import CROWD as SLOT_CROWD
from bench.scheduling.booking import BookingLoad, SlotCrowdLoad
from bench.scheduling.pgbench import InsertLoad
from bench.scheduling.world import WORKERS_OF_A_SERVICE
from bench.server_processes import SECRET
from bench.sign_ups.load import FEW_ROWS, MANY_ROWS, SignUpLoad
from bench.stage import Stage, caller_headers
from bench.wrk import KEYED_POST, PLAIN_POST, SIGN_UP, HttpLoad

ANYONE = {"Content-Type": "application/json"}
SLOT_ROW = f"booking over HTTP, {SLOT_CROWD} clients, one slot"


def rows(stage: Stage) -> list[Row]:
    return [
        *_http_rows(stage),
        *_ride_rows(stage),
        *_location_rows(stage),
        *_community_rows(stage),
        *_booking_rows(stage),
        *_event_rows(stage),
        *_sign_up_rows(stage),
    ]


def _http_rows(stage: Stage) -> list[Row]:
    raw = "raw ASGI, the same body, on uvicorn"
    return [
        Row(
            "no-op GET with auth and limits",
            raw,
            0.2,
            lambda: (
                HttpLoad(f"{stage.full.url}/noop", caller_headers()),
                HttpLoad(f"{stage.raw_url}/noop", ANYONE),
            ),
        ),
        Row(
            "no-op POST with an idempotency key",
            raw,
            None,
            lambda: (
                HttpLoad(f"{stage.full.url}/noop", caller_headers(), KEYED_POST),
                HttpLoad(f"{stage.raw_url}/noop", ANYONE, PLAIN_POST),
            ),
        ),
    ]


def _ride_rows(stage: Stage) -> list[Row]:
    pgbench = "pgbench running the same SQL"
    return [
        Row(
            "accept over HTTP, distinct rides",
            pgbench,
            0.4,
            lambda: (AcceptLoad(*stage.full.api), PgbenchLoad(stage.full.database_url)),
            accept_delay("one API process", p99=200),
        ),
        Row(
            "accept over HTTP, distinct rides, two API processes",
            pgbench,
            1.6,
            lambda: (AcceptLoad(*stage.two_processes.api), PgbenchLoad(stage.two_processes.database_url)),
            accept_delay("two API processes", median=10, p99=60),
        ),
        Row(
            f"accept over HTTP, {CROWD:,} drivers, one ride",
            "a no-op POST of the same server and callers",
            0.4,
            lambda: (CrowdLoad(*stage.full.api), CrowdLoad(*stage.full.api, no_op_path="/noop/open")),
        ),
        Row(
            f"rides requested to matches, {MANY_OPEN:,} others open",
            f"with {FEW_OPEN:,} open",
            0.9,
            lambda: (MatchLoad(*stage.many_open.servers), MatchLoad(*stage.few_open.servers)),
        ),
    ]


def _location_rows(stage: Stage) -> list[Row]:
    def nearby() -> tuple[Load, Load]:
        few = NearbyLoad(stage.few_drivers.url, SECRET, FEW_DRIVERS)
        return NearbyLoad(stage.many_drivers.url, SECRET, MANY_DRIVERS, beside=few), few

    return [
        Row(
            "pings over HTTP, lists of 100, distinct drivers",
            "pipelined GEOADD, redis-benchmark",
            0.12,
            lambda: (PingLoad(stage.full.url, *stage.full.servers), GeoaddLoad(stage.full.redis_url)),
        ),
        Row(
            f"nearby, 100 drivers in reach, {MANY_DRIVERS:,} online, by p99",
            f"with {FEW_DRIVERS:,} online",
            0.5,
            nearby,
            nearby_delays,
        ),
    ]


def _community_rows(stage: Stage) -> list[Row]:
    plain = "a plain ride requested to 201, same server"
    return [
        Row(
            f"fences of a place, among {FENCES:,}",
            "one bare test of one prepared fence",
            0.2,
            lambda: (FenceLoad(), PreparedLoad()),
            fence_delay,
        ),
        Row(
            "community ride requested, no driver at home, to 202",
            plain,
            0.7,
            lambda: (WishLoad("ask", stage.land), WishLoad("plain", stage.land)),
            wish_delays,
        ),
        Row(
            "community ride confirmed to 201",
            plain,
            None,
            lambda: (WishLoad("confirm", stage.land), WishLoad("plain", stage.land)),
            wish_delays,
        ),
    ]


def _booking_rows(stage: Stage) -> list[Row]:
    inserted = "pgbench inserting the same rows"
    no_op = "a no-op POST with a key, same callers"
    return [
        Row(
            "booking over HTTP, distinct workers",
            inserted,
            0.4,
            lambda: (BookingLoad(*stage.full.api), InsertLoad(*stage.full.api)),
        ),
        Row(
            f"booking over HTTP, any of {WORKERS_OF_A_SERVICE} workers",
            inserted,
            None,
            lambda: (BookingLoad(*stage.full.api, any_worker=True), InsertLoad(*stage.full.api)),
        ),
        Row(
            SLOT_ROW,
            no_op,
            None,
            lambda: (SlotCrowdLoad(*stage.full.api), SlotCrowdLoad(*stage.full.api, no_op_path="/noop")),
            slot_delays,
        ),
        Row(
            f"{SLOT_ROW}, Redis away",
            no_op,
            None,
            lambda: (
                SlotCrowdLoad(*stage.without_redis.api),
                SlotCrowdLoad(*stage.full.api, no_op_path="/noop"),
            ),
            slot_delays,
        ),
    ]


def _event_rows(stage: Stage) -> list[Row]:
    def delivered() -> tuple[Load, Load]:
        place, bare = stage.live
        return DeliveryLoad(place), BroadcastLoad(bare)

    def events(what: str, amqp_url: str | None, events_a_second: int) -> EventLoad:
        return EventLoad(what, stage.events_url, amqp_url, events_a_second)

    return [
        Row(
            f"live: deliveries from committed row to client, {SOCKETS} sockets, two APIs",
            "two bare uvicorns that send the same bytes to as many",
            0.2,
            delivered,
            live_figures(stage),
        ),
        Row(
            "committed row to handled event, PostgreSQL bus",
            "bare publish and consume, leased rows",
            0.4,
            lambda: (events("pipeline", None, 8000), events("bare", None, 30000)),
        ),
        Row(
            "committed row to handled event, RabbitMQ",
            "bare publish and consume, aio-pika",
            0.4,
            lambda: (events("pipeline", stage.amqp_url, 2000), events("bare", stage.amqp_url, 3000)),
        ),
        Row(
            f"relay with {KEPT_MANY:,} sent events kept",
            f"with {KEPT_FEW:,} kept",
            0.9,
            lambda: (RelayLoad(stage.many_kept_url), RelayLoad(stage.few_kept_url)),
        ),
    ]


def _sign_up_rows(stage: Stage) -> list[Row]:
    def no_op() -> HttpLoad:
        return HttpLoad(f"{stage.full.url}/noop/open", ANYONE, PLAIN_POST)

    def on_rabbitmq(what: str, expected_per_second: int) -> SignUpLoad:
        return SignUpLoad(what, stage.few_people_url, stage.amqp_url, expected_per_second)

    def on_postgres(what: str, expected_per_second: int) -> SignUpLoad:
        return SignUpLoad(what, stage.few_people_url, None, expected_per_second)

    return [
        Row(
            "sign-ups over HTTP, PostgreSQL bus",
            "a no-op POST of the same server, open and limited too",
            0.3,
            lambda: (HttpLoad(f"{stage.full.url}/v1/users", ANYONE, SIGN_UP), no_op()),
        ),
        Row(
            "sign-ups over HTTP, RabbitMQ",
            "the same no-op POST",
            0.3,
            lambda: (HttpLoad(f"{stage.on_rabbitmq.url}/v1/users", ANYONE, SIGN_UP), no_op()),
        ),
        Row(
            "sign-ups from queue to rows, RabbitMQ",
            "a bare consumer that acknowledges in bulk",
            0.55,
            lambda: (on_rabbitmq("pipeline", 8000), on_rabbitmq("bare", 8000)),
        ),
        Row(
            "sign-ups from queue to rows, RabbitMQ, in batches",
            "one row a message, a pool of 16",
            3,
            lambda: (on_rabbitmq("pipeline", 8000), on_rabbitmq("one-by-one", 2000)),
        ),
        Row(
            "sign-ups from queue to rows, PostgreSQL bus",
            "a bare loop: delete a batch, insert it into the same table",
            0.5,
            lambda: (on_postgres("pipeline", 12000), on_postgres("bare", 20000)),
        ),
        Row(
            f"sign-ups to rows with {MANY_ROWS:,} people",
            f"with {FEW_ROWS:,}",
            0.9,
            lambda: (
                SignUpLoad("pipeline", stage.many_people_url, None, expected_per_second=12000),
                on_postgres("pipeline", 12000),
            ),
        ),
    ]
