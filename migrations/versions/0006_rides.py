"""Rides, the offers made for them, every attempt to accept one, and each step they took."""

from catraca.platform.database.migrations import run_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql("""
        CREATE TABLE rides (
            id                   uuid PRIMARY KEY,
            passenger_id         uuid NOT NULL REFERENCES users (id),
            status               text NOT NULL DEFAULT 'REQUESTED' CHECK (status IN (
                                     'REQUESTED', 'SEARCHING', 'OFFERED', 'ACCEPTED', 'ARRIVING', 'STARTED',
                                     'COMPLETED', 'PAID', 'CANCELED', 'EXPIRED', 'PAYMENT_EXPIRED')),
            -- How often a driver has been looked for: one more each time a driver gives the ride up.
            round                integer NOT NULL DEFAULT 1 CHECK (round > 0),
            -- Raised with every move: the number of the ride's last row in ride_events.
            version              integer NOT NULL DEFAULT 1,
            accepted_driver_id   uuid,
            accepted_at          timestamptz,
            pickup_lat           double precision NOT NULL CHECK (pickup_lat BETWEEN -90 AND 90),
            pickup_lon           double precision NOT NULL CHECK (pickup_lon BETWEEN -180 AND 180),
            pickup_address       text CHECK (char_length(pickup_address) <= 300),
            dropoff_lat          double precision CHECK (dropoff_lat BETWEEN -90 AND 90),
            dropoff_lon          double precision CHECK (dropoff_lon BETWEEN -180 AND 180),
            dropoff_address      text CHECK (char_length(dropoff_address) <= 300),
            distance_meters      integer CHECK (distance_meters >= 0),
            duration_seconds     integer CHECK (duration_seconds >= 0),
            estimated_fare_cents bigint CHECK (estimated_fare_cents >= 0),
            final_fare_cents     bigint CHECK (final_fare_cents >= 0),
            created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
            -- Until when a driver is looked for in this round.
            deadline_at          timestamptz NOT NULL,
            arrived_at           timestamptz,
            started_at           timestamptz,
            completed_at         timestamptz,
            canceled_at          timestamptz,
            canceled_by          text CHECK (canceled_by IN ('passenger', 'driver', 'operator', 'system')),
            cancel_reason        text CHECK (char_length(cancel_reason) <= 60),
            cancel_note          text CHECK (char_length(cancel_note) <= 300),
            CONSTRAINT dropoffs_are_whole CHECK ((dropoff_lat IS NULL) = (dropoff_lon IS NULL)),
            -- Set from acceptance on; an end that was reached from there may keep it.
            CONSTRAINT accepted_rides_have_a_driver CHECK (
                CASE
                    WHEN status IN ('ACCEPTED', 'ARRIVING', 'STARTED', 'COMPLETED', 'PAID', 'PAYMENT_EXPIRED')
                    THEN accepted_driver_id IS NOT NULL
                    WHEN status IN ('REQUESTED', 'SEARCHING', 'OFFERED', 'EXPIRED')
                    THEN accepted_driver_id IS NULL
                    ELSE true
                END),
            CONSTRAINT acceptances_have_their_time CHECK (
                (accepted_driver_id IS NULL) = (accepted_at IS NULL)),
            CONSTRAINT nobody_drives_themselves CHECK (accepted_driver_id <> passenger_id),
            CONSTRAINT canceled_rides_say_by_whom CHECK ((status = 'CANCELED') = (canceled_by IS NOT NULL)),
            CONSTRAINT completed_rides_have_a_fare CHECK (
                status NOT IN ('COMPLETED', 'PAID', 'PAYMENT_EXPIRED') OR final_fare_cents IS NOT NULL)
        ) WITH (fillfactor = 80);
        CREATE UNIQUE INDEX one_open_ride_a_passenger ON rides (passenger_id)
            WHERE status IN ('REQUESTED', 'SEARCHING', 'OFFERED', 'ACCEPTED', 'ARRIVING', 'STARTED');
        CREATE UNIQUE INDEX one_ride_at_a_time_a_driver ON rides (accepted_driver_id)
            WHERE status IN ('ACCEPTED', 'ARRIVING', 'STARTED');
        CREATE INDEX rides_by_status ON rides (status, id);
        CREATE INDEX rides_by_passenger ON rides (passenger_id, id);
        CREATE INDEX rides_by_driver ON rides (accepted_driver_id, id) WHERE accepted_driver_id IS NOT NULL;

        -- Who may have a ride, and what they said.
        CREATE TABLE ride_offers (
            id           uuid PRIMARY KEY,
            ride_id      uuid NOT NULL REFERENCES rides (id),
            driver_id    uuid NOT NULL REFERENCES drivers (user_id),
            round        integer NOT NULL CHECK (round > 0),
            -- The ride's offers are counted through all its rounds.
            attempt      integer NOT NULL CHECK (attempt > 0),
            offered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at   timestamptz NOT NULL,
            responded_at timestamptz,
            response     text CHECK (response IN ('ACCEPTED', 'REJECTED', 'EXPIRED', 'CANCELED')),
            reason       text CHECK (char_length(reason) <= 60),
            -- Whether it keeps the driver from every other ride: while it is live and, accepted, to the end.
            held         boolean NOT NULL DEFAULT true,
            CONSTRAINT answers_have_their_time CHECK ((response IS NULL) = (responded_at IS NULL)),
            CONSTRAINT live_offers_hold_their_driver CHECK (held OR response IS NOT NULL),
            CONSTRAINT lost_offers_hold_nobody CHECK (NOT held OR response IS NULL OR response = 'ACCEPTED'),
            CONSTRAINT offers_are_accepted_in_time CHECK (
                response IS DISTINCT FROM 'ACCEPTED' OR responded_at < expires_at)
        ) WITH (fillfactor = 70);
        -- No driver has two live offers, two rides, or an offer while driving.
        CREATE UNIQUE INDEX one_held_offer_a_driver ON ride_offers (driver_id) WHERE held;
        CREATE UNIQUE INDEX one_winner_a_round ON ride_offers (ride_id, round) WHERE response = 'ACCEPTED';
        CREATE INDEX ride_offers_by_ride ON ride_offers (ride_id, driver_id, attempt);

        -- In time means at the commit: a process that paused between its statement and its COMMIT is late.
        CREATE FUNCTION refuse_late_acceptances() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.expires_at <= clock_timestamp() THEN
                RAISE EXCEPTION 'an offer was accepted after it had expired' USING
                    ERRCODE = 'check_violation', CONSTRAINT = 'acceptances_commit_in_time';
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER acceptances_commit_in_time
            AFTER INSERT OR UPDATE OF response ON ride_offers DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.response = 'ACCEPTED') EXECUTE FUNCTION refuse_late_acceptances();

        -- Each step of a ride. The chain has no gap and no illegal move, and a ride stands at its end.
        CREATE TABLE ride_events (
            ride_id     uuid NOT NULL,
            seq         integer NOT NULL CHECK (seq > 0),
            previous    integer GENERATED ALWAYS AS (nullif(seq - 1, 0)) STORED,
            from_status text,
            to_status   text NOT NULL,
            round       integer NOT NULL,
            at          timestamptz NOT NULL DEFAULT clock_timestamp(),
            -- Who moved it, and why.
            actor       text NOT NULL CHECK (actor IN ('passenger', 'driver', 'operator', 'system')),
            actor_id    uuid,
            reason      text CHECK (char_length(reason) <= 60),
            -- The routing key of what the outbox told of it.
            news        text NOT NULL,
            PRIMARY KEY (ride_id, seq),
            UNIQUE (ride_id, seq, to_status),
            CONSTRAINT steps_follow_each_other FOREIGN KEY (ride_id, previous, from_status)
                REFERENCES ride_events (ride_id, seq, to_status),
            CONSTRAINT only_allowed_moves CHECK (
                CASE WHEN seq = 1 THEN from_status IS NULL AND to_status = 'REQUESTED'
                ELSE coalesce(from_status || '>' || to_status, '') IN (
                    'REQUESTED>SEARCHING', 'REQUESTED>OFFERED', 'REQUESTED>CANCELED', 'REQUESTED>EXPIRED',
                    'SEARCHING>OFFERED', 'SEARCHING>CANCELED',
                    'OFFERED>SEARCHING', 'OFFERED>ACCEPTED', 'OFFERED>CANCELED',
                    'ACCEPTED>ARRIVING', 'ACCEPTED>SEARCHING', 'ACCEPTED>CANCELED',
                    'ARRIVING>STARTED', 'ARRIVING>SEARCHING', 'ARRIVING>CANCELED',
                    'STARTED>COMPLETED',
                    'COMPLETED>PAID', 'COMPLETED>PAYMENT_EXPIRED')
                END)
        );
        ALTER TABLE rides ADD CONSTRAINT rides_stand_where_their_steps_end
            FOREIGN KEY (id, version, status) REFERENCES ride_events (ride_id, seq, to_status)
            DEFERRABLE INITIALLY DEFERRED;

        -- Every attempt to accept, with what became of it: also the answer that a repeat gets.
        CREATE TABLE ride_accept_attempts (
            id              uuid NOT NULL,
            ride_id         uuid NOT NULL REFERENCES rides (id),
            driver_id       uuid NOT NULL,
            -- The driver's newest offer for the ride, if there was any.
            offer_id        uuid,
            idempotency_key text NOT NULL CHECK (char_length(idempotency_key) BETWEEN 1 AND 255),
            status          text NOT NULL CHECK (status IN ('SUCCESS', 'FAILED')),
            failure_reason  text CHECK (char_length(failure_reason) <= 60),
            -- As it was when the attempt was judged.
            ride_status     text NOT NULL,
            attempt_at      timestamptz NOT NULL,
            completed_at    timestamptz NOT NULL,
            actor_id        uuid NOT NULL,
            request_id      text CHECK (char_length(request_id) <= 100),
            user_agent      text CHECK (char_length(user_agent) <= 200),
            ip_address      inet,
            PRIMARY KEY (ride_id, id),
            CONSTRAINT one_attempt_a_driver_key_and_offer
                UNIQUE NULLS NOT DISTINCT (driver_id, idempotency_key, ride_id, offer_id),
            CONSTRAINT failures_have_a_reason CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
            CONSTRAINT successes_have_an_offer CHECK (status = 'FAILED' OR offer_id IS NOT NULL)
        );
    """)
