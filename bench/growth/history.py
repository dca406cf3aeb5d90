"""Finished rides and past appointments, so that the tables are as large as after years of use."""

import asyncio

import asyncpg

FEW_ROWS, MANY_ROWS = 10_000, 1_000_000
# A million rides are 70 days. Attempts older than their retention of 90 days are deleted all the time; were
# there hundreds of thousands of them, a measurement would be of the pruner.
SECONDS_APART = 6
# Each person has ten rides, and each worker two hundred appointments. Each ride has one of its six events,
# because the others would take as long as all other rows.
RIDES = """
    CREATE TEMP TABLE people AS
        SELECT p, uuidv7() AS passenger, uuidv7() AS driver FROM generate_series(1, {count} / 10) AS p;
    CREATE TEMP TABLE past AS
        SELECT uuidv7() AS ride, uuidv7() AS offer, passenger, driver,
            now() - n * interval '{apart} seconds' AS at
        FROM generate_series(1, {count}) AS n JOIN people ON p = (n + 9) / 10 ORDER BY n;
    INSERT INTO users (id, roles)
        SELECT passenger, '{{passenger}}'::text[] FROM people
        UNION ALL SELECT driver, '{{driver}}' FROM people;
    INSERT INTO drivers (user_id, approval) SELECT driver, 'approved' FROM people;
    INSERT INTO rides (id, passenger_id, status, version, accepted_driver_id, accepted_at, pickup_lat,
            pickup_lon, created_at, updated_at, deadline_at, arrived_at, started_at, completed_at,
            final_fare_cents)
        SELECT ride, passenger, 'COMPLETED', 6, driver, at, -12.98, -38.5, at, at, at, at, at, at, 1500
        FROM past;
    INSERT INTO ride_events (ride_id, seq, to_status, round, at, actor, news)
        SELECT ride, 1, 'REQUESTED', 1, at, 'passenger', 'ride.requested' FROM past;
    INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, offered_at, expires_at, responded_at,
            response, held)
        SELECT offer, ride, driver, 1, 1, at, at + interval '15 s', at, 'ACCEPTED', false FROM past;
    INSERT INTO ride_accept_attempts (id, ride_id, driver_id, offer_id, idempotency_key, status, ride_status,
            attempt_at, completed_at, actor_id, place)
        SELECT offer, ride, driver, offer, 'past', 'SUCCESS', 'ACCEPTED', at, at, driver, 1 FROM past;
    INSERT INTO matchings (ride_id, round, phase, search, offers, started_at, lat, lng, cell)
        SELECT ride, 1, 'matched', 1, 1, at, -12.98, -38.5, 0 FROM past;
    INSERT INTO outbox_heads (aggregate_id, seq) SELECT ride, 6 FROM past
"""
APPOINTMENTS = """
    CREATE TEMP TABLE agendas AS
        SELECT a, uuidv7() AS id, uuidv7() AS client FROM generate_series(0, {count} / 200) AS a;
    INSERT INTO users (id, roles) SELECT client, '{{passenger}}' FROM agendas;
    INSERT INTO subjects (id, kind, name, time_zone)
        SELECT id, 'worker', 'Medida', 'America/Bahia' FROM agendas;
    INSERT INTO services (id, name, duration_minutes, buffer_before_minutes, buffer_after_minutes,
            min_notice_minutes, horizon_days, slot_step_minutes, capacity)
        SELECT id, 'Medida', 60, 0, 0, 0, 60, 30, 1 FROM agendas;
    CREATE TEMP TABLE past AS
        SELECT uuidv7() AS appointment, uuidv7() AS session, id AS service, no, client,
            date_trunc('day', now()) - (2 + n % 200) * interval '1 hour' AS starts_at,
            date_trunc('day', now()) - (1 + n % 200) * interval '1 hour' AS ends_at
        FROM generate_series(1, {count}) AS n JOIN agendas ON a = n / 200 JOIN subjects USING (id) ORDER BY n;
    INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, service_id, begins_at, finishes_at,
            capacity)
        SELECT session, no, starts_at, ends_at, 'session', service, starts_at, ends_at, 1 FROM past;
    INSERT INTO appointments (id, service_id, worker_no, client_id, status, session_id, seat_no, capacity,
            starts_at, ends_at, local_starts_at, time_zone, tzdata_version)
        SELECT appointment, service, no, client, 'CONFIRMED', session, 1, 1, starts_at, ends_at,
            starts_at AT TIME ZONE 'America/Bahia', 'America/Bahia', '2026a'
        FROM past;
    INSERT INTO outbox_heads (aggregate_id, seq) SELECT appointment, 1 FROM past
"""


async def add_history(database_url: str, count: int) -> None:
    """Insert `count` finished rides and as many past appointments, with their rows in other tables."""
    scripts = [each.format(count=count, apart=SECONDS_APART) for each in (RIDES, APPOINTMENTS)]
    await asyncio.gather(*(_fill(database_url, each) for each in scripts))
    db = await asyncpg.connect(database_url)
    try:
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()


async def _fill(database_url: str, statements: str) -> None:
    db = await asyncpg.connect(database_url)
    try:
        await db.execute("SET synchronous_commit = off")
        # Without the foreign key checks, which take longer than the rest; the rows are consistent.
        await db.execute("SET session_replication_role = replica")
        await db.execute(statements)
    finally:
        await db.close()
