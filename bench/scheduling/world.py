"""Empty agendas and clients. Some workers share a service."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import msgspec

from bench.rides.world import numbered_id, numbered_sql
from catraca.platform.auth import sign_token

WORKER, SERVICE, CLIENT = "1", "2", "3"
WORKERS_OF_A_SERVICE = 10
# Booked hours per worker, consecutive.
HOURS = 8
FIRST_HOUR = 9
MINUTES_OF_A_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Wish:
    """A booking request of one client."""

    bearer: str
    body: str


@dataclass(frozen=True, slots=True)
class Agendas:
    """Workers, and a client for each of their hours; ids are numbered from `first` on."""

    first: int
    workers: int
    first_client: int
    # The `no` of the first worker; the others follow.
    first_no: int
    starts_at: datetime
    workers_of_a_service: int = WORKERS_OF_A_SERVICE

    @property
    def bookings(self) -> int:
        return self.workers * HOURS

    def wishes(self, secret: str, *, any_worker: bool = False) -> Iterator[Wish]:
        """A request for each hour, consecutive ones in other agendas; with a worker, or for any worker."""
        for number in range(self.bookings):
            hour, place = divmod(number, self.workers)
            # Consecutive requests are for other services, too.
            turn, worker = divmod(place * self.workers_of_a_service, self.workers)
            worker += turn
            yield self.wish(secret, number, worker, hour, any_worker=any_worker)

    def wish(self, secret: str, number: int, worker: int, hour: int, *, any_worker: bool = False) -> Wish:
        """A request of client `number` for an hour of this worker, or of any worker of the same service."""
        body = {
            "service_id": numbered_id(SERVICE, self.first + worker // self.workers_of_a_service),
            "starts_at": self.starts_at + timedelta(hours=hour),
        }
        if not any_worker:
            body["worker_id"] = numbered_id(WORKER, self.first + worker)
        client_id = numbered_id(CLIENT, self.first_client + number)
        return Wish(bearer_of(secret, client_id), msgspec.json.encode(body).decode())


async def make_agendas(
    database_url: str,
    bookings: int,
    *,
    clients: int = 0,
    workers_of_a_service: int = WORKERS_OF_A_SERVICE,
) -> Agendas:
    """Add agendas with at least `bookings` hours, and as many clients, or `clients` if that is more."""
    db = await asyncpg.connect(database_url)
    try:
        agendas = await insert_agendas(db, bookings, clients, workers_of_a_service)
        await db.execute("ANALYZE subjects, services, service_subjects, worker_rules, users, claims")
        await db.execute("ANALYZE appointments, timers")
        # Events left by the last measurement must not load this one.
        await db.execute("TRUNCATE outbox, outbox_sent")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()
    return agendas


async def insert_agendas(
    db: asyncpg.Connection,
    bookings: int,
    clients: int = 0,
    workers_of_a_service: int = WORKERS_OF_A_SERVICE,
) -> Agendas:
    """Do so in one transaction, without the rest of `make_agendas`."""
    services = -(-bookings // (HOURS * workers_of_a_service))
    workers = services * workers_of_a_service
    first = 1 + await db.fetchval("SELECT count(*) FROM subjects")
    first_client = 1 + await db.fetchval("SELECT count(*) FROM users")
    numbers = f"generate_series({first}, {first + workers - 1}) AS n"
    service = numbered_sql(SERVICE, f"{first} + (n - {first}) / {workers_of_a_service}")
    last_client = first_client + max(workers * HOURS, clients) - 1
    await db.execute(f"""
        BEGIN;
        INSERT INTO subjects (id, kind, name, time_zone)
            SELECT {numbered_sql(WORKER, "n")}, 'worker', 'Medida', 'America/Bahia'
            FROM {numbers} ORDER BY n;
        INSERT INTO services (id, name, duration_minutes, buffer_before_minutes, buffer_after_minutes,
                min_notice_minutes, horizon_days, slot_step_minutes, capacity)
            SELECT DISTINCT {service}, 'Medida', 60, 0, 0, 0, 60, 30, 1 FROM {numbers};
        INSERT INTO service_subjects (service_id, subject_no)
            SELECT {service}, s.no FROM {numbers} JOIN subjects s ON s.id = {numbered_sql(WORKER, "n")};
        INSERT INTO worker_rules (subject_no, weekday, start_minute, end_minute)
            SELECT s.no, weekday, 0, {MINUTES_OF_A_DAY} FROM {numbers}
            JOIN subjects s ON s.id = {numbered_sql(WORKER, "n")}, generate_series(1, 7) AS weekday;
        INSERT INTO users (id, roles) SELECT {numbered_sql(CLIENT, "n")}, '{{passenger}}'
            FROM generate_series({first_client}, {last_client}) AS n;
        COMMIT;
    """)
    first_no = await db.fetchval("SELECT no FROM subjects WHERE id = $1", numbered_id(WORKER, first))
    day = datetime.now(UTC).replace(hour=FIRST_HOUR, minute=0, second=0, microsecond=0) + timedelta(days=3)
    return Agendas(first, workers, first_client, first_no, day, workers_of_a_service)


def bearer_of(secret: str, client_id: UUID) -> str:
    return sign_token(secret, subject=client_id, roles=["passenger"], lifetime=timedelta(hours=6))


async def count_booked(database_url: str, agendas: Agendas) -> int:
    db = await asyncpg.connect(database_url)
    try:
        return await db.fetchval(
            "SELECT count(*) FROM appointments WHERE worker_no BETWEEN $1 AND $2",
            agendas.first_no,
            agendas.first_no + agendas.workers - 1,
        )
    finally:
        await db.close()
