"""Operators can end a started ride; the distance that a driver reports is bounded; rides can be flagged."""

from catraca.platform.database.migrations import run_sql

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_sql("""
        -- The number of a driver's attempt at a ride. Only a few are recorded: surplus rows of before get
        -- negative numbers, and are pruned with the others.
        ALTER TABLE ride_accept_attempts ADD COLUMN place integer;
        UPDATE ride_accept_attempts a SET place = CASE
            WHEN a.status = 'SUCCESS' OR n.place = 1 OR (n.place <= 20 AND a.offer_id IS NOT NULL)
            THEN n.place ELSE -n.place END
        FROM (SELECT ride_id, id, row_number() OVER (PARTITION BY ride_id, driver_id ORDER BY id) AS place
            FROM ride_accept_attempts) AS n
        WHERE n.ride_id = a.ride_id AND n.id = a.id;
        ALTER TABLE ride_accept_attempts ALTER COLUMN place SET NOT NULL;
        -- As many indexes as before: this one also finds a driver's last attempt.
        ALTER TABLE ride_accept_attempts DROP CONSTRAINT ride_accept_attempts_pkey;
        ALTER TABLE ride_accept_attempts ADD PRIMARY KEY (ride_id, driver_id, place);
        ALTER TABLE ride_accept_attempts ADD CONSTRAINT twenty_failures_a_driver_and_ride
            CHECK (place <= 20 OR status = 'SUCCESS');
        ALTER TABLE ride_accept_attempts ADD CONSTRAINT one_attempt_without_an_offer
            CHECK (place <= 1 OR offer_id IS NOT NULL);

        ALTER TABLE ride_events DROP CONSTRAINT only_allowed_moves;
        ALTER TABLE ride_events ADD CONSTRAINT only_allowed_moves CHECK (
            CASE WHEN seq = 1 THEN from_status IS NULL AND to_status = 'REQUESTED'
            ELSE coalesce(from_status || '>' || to_status, '') IN (
                'REQUESTED>SEARCHING', 'REQUESTED>OFFERED', 'REQUESTED>CANCELED', 'REQUESTED>EXPIRED',
                'SEARCHING>OFFERED', 'SEARCHING>CANCELED',
                'OFFERED>SEARCHING', 'OFFERED>ACCEPTED', 'OFFERED>CANCELED',
                'ACCEPTED>ARRIVING', 'ACCEPTED>SEARCHING', 'ACCEPTED>CANCELED',
                'ARRIVING>STARTED', 'ARRIVING>SEARCHING', 'ARRIVING>CANCELED',
                'STARTED>COMPLETED', 'STARTED>CANCELED',
                'COMPLETED>PAID', 'COMPLETED>PAYMENT_EXPIRED')
            END);
        -- Rides that were started before have no timer yet; 6 hours are the default of CATRACA_LONGEST_RIDE.
        INSERT INTO timers (kind, subject_id, due_at, awake_at)
            SELECT 'rides.due', id, due, due
            FROM (SELECT id, started_at + interval '6 hours' AS due FROM rides WHERE status = 'STARTED') AS r
            ON CONFLICT (kind, subject_id) DO NOTHING;
        ALTER TABLE ride_events ADD CONSTRAINT only_operators_cancel_started_rides CHECK (
            from_status IS DISTINCT FROM 'STARTED' OR to_status <> 'CANCELED' OR actor = 'operator');

        -- Of a ride without a destination: the distance that the driver reported, and the part of it that
        -- was charged.
        ALTER TABLE rides ADD COLUMN reported_meters integer CHECK (reported_meters >= 0);
        ALTER TABLE rides ADD COLUMN charged_meters integer CHECK (charged_meters >= 0);
        ALTER TABLE rides ADD CONSTRAINT charged_distances_were_reported
            CHECK (num_nulls(charged_meters, reported_meters) <> 1 AND charged_meters <= reported_meters);
        -- 70 m/s is the highest top speed that can be set; 500 m are the slack.
        ALTER TABLE rides ADD CONSTRAINT charged_distances_fit_the_time CHECK (
            charged_meters IS NULL
            OR charged_meters <= 500 + 70 * extract(epoch FROM completed_at - started_at));

        -- How far the driver of a started ride without a destination has come, by the pings. The row is
        -- deleted when the ride ends.
        CREATE TABLE ride_tracks (
            ride_id         uuid PRIMARY KEY REFERENCES rides (id),
            -- The last position.
            lat             double precision NOT NULL CHECK (lat BETWEEN -90 AND 90),
            lng             double precision NOT NULL CHECK (lng BETWEEN -180 AND 180),
            position_at     timestamptz NOT NULL,
            meters          double precision NOT NULL DEFAULT 0 CHECK (meters BETWEEN 0 AND 1e8),
            -- The time between positions that followed each other soon.
            covered_seconds double precision NOT NULL DEFAULT 0 CHECK (covered_seconds BETWEEN 0 AND 1e8),
            CONSTRAINT ride_tracks_times_in_range CHECK (is_plausible(position_at))
        ) WITH (fillfactor = 50);

        -- Rides that an operator should look at.
        CREATE TABLE ride_flags (
            id          uuid PRIMARY KEY,
            ride_id     uuid NOT NULL REFERENCES rides (id),
            kind        text NOT NULL CHECK (kind IN ('takes_too_long', 'distance_cut', 'ended_too_soon')),
            -- Seconds or metres, by the kind: what was measured, and the limit.
            measured    integer NOT NULL,
            allowed     integer,
            flagged_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            reviewed_at timestamptz,
            reviewed_by uuid,
            CONSTRAINT one_flag_a_ride_and_kind UNIQUE (ride_id, kind),
            CONSTRAINT reviews_are_whole CHECK ((reviewed_at IS NULL) = (reviewed_by IS NULL))
        );
        -- For the pause after a passenger's cancellations.
        CREATE INDEX rides_canceled_by_passenger ON rides (passenger_id, canceled_at)
            WHERE canceled_by = 'passenger';
        CREATE INDEX ride_flags_open ON ride_flags (id) WHERE reviewed_at IS NULL;
    """)
