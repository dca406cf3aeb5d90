"""Scheduling: whose time there is, what it can be booked for, and what has taken it."""

from catraca.platform.database.migrations import run_sql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_sql("""
        -- Seconds since 1970. Taking an interval's, not a moment's, depends on no setting.
        -- So it may be indexed.
        CREATE FUNCTION epoch_s(moment timestamptz) RETURNS double precision
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN date_part('epoch', moment - timestamptz '1970-01-01 00:00:00+00');
        -- A stretch of a subject's time as a box without width: built-in, where ranges beside numbers would
        -- need an extension that the embedded server does not have. The end is not included. Subjects lie
        -- further apart than times, so the index has one's time together.
        CREATE FUNCTION claim_box(subject_no integer, starts_at timestamptz, ends_at timestamptz) RETURNS box
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN box(point(subject_no * 4294967296.0::double precision, epoch_s(starts_at)),
                       point(subject_no * 4294967296.0::double precision, epoch_s(ends_at) - 1));

        -- Whose time can be taken. Whoever writes to an agenda holds these rows first, in the order of `no`.
        CREATE TABLE subjects (
            no                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id                uuid NOT NULL UNIQUE,
            kind              text NOT NULL CHECK (kind IN ('worker', 'room')),
            name              text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 120),
            time_zone         text CHECK (char_length(time_zone) <= 64),
            -- A worker's own account, if they have one.
            user_id           uuid UNIQUE REFERENCES users (id),
            holidays_country  text CHECK (char_length(holidays_country) <= 3),
            holidays_state    text CHECK (char_length(holidays_state) <= 10),
            -- Of the secret in the address of their calendar.
            feed_hash         bytea UNIQUE,
            retired           boolean NOT NULL DEFAULT false,
            created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            CHECK ((kind = 'worker') = (time_zone IS NOT NULL)),
            CHECK (kind = 'worker' OR user_id IS NULL AND holidays_country IS NULL AND feed_hash IS NULL),
            CHECK (holidays_country IS NOT NULL OR holidays_state IS NULL)
        );

        CREATE TABLE services (
            id                    uuid PRIMARY KEY,
            name                  text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 120),
            duration_minutes      integer NOT NULL CHECK (duration_minutes BETWEEN 1 AND 1440),
            buffer_before_minutes integer NOT NULL CHECK (buffer_before_minutes BETWEEN 0 AND 1440),
            buffer_after_minutes  integer NOT NULL CHECK (buffer_after_minutes BETWEEN 0 AND 1440),
            min_notice_minutes    integer NOT NULL CHECK (min_notice_minutes BETWEEN 0 AND 525600),
            horizon_days          integer NOT NULL CHECK (horizon_days BETWEEN 1 AND 730),
            slot_step_minutes     integer NOT NULL CHECK (slot_step_minutes BETWEEN 1 AND 1440),
            capacity              integer NOT NULL CHECK (capacity BETWEEN 1 AND 1000),
            retired               boolean NOT NULL DEFAULT false,
            created_at            timestamptz NOT NULL DEFAULT clock_timestamp()
        );

        -- Who does it, and in which rooms it can be done: with any here, one of them is needed.
        CREATE TABLE service_subjects (
            service_id uuid NOT NULL REFERENCES services (id),
            subject_no integer NOT NULL REFERENCES subjects (no),
            PRIMARY KEY (service_id, subject_no)
        );
        CREATE INDEX service_subjects_by_subject ON service_subjects (subject_no);

        -- Weekly hours, in minutes of the worker's local day; past 1440 they go on into the next.
        CREATE TABLE worker_rules (
            subject_no   integer NOT NULL REFERENCES subjects (no),
            weekday      integer NOT NULL CHECK (weekday BETWEEN 1 AND 7),
            start_minute integer NOT NULL CHECK (start_minute BETWEEN 0 AND 1439),
            end_minute   integer NOT NULL CHECK (end_minute - start_minute BETWEEN 1 AND 1440),
            valid_from   date,
            valid_to     date,
            CHECK (valid_from <= valid_to)
        );
        CREATE INDEX worker_rules_by_subject ON worker_rules (subject_no);

        -- A day that is not like its weekday: these hours instead, or none.
        CREATE TABLE worker_overrides (
            subject_no   integer NOT NULL REFERENCES subjects (no),
            day          date NOT NULL,
            start_minute integer CHECK (start_minute BETWEEN 0 AND 1439),
            end_minute   integer CHECK (end_minute - start_minute BETWEEN 1 AND 1440),
            CHECK ((start_minute IS NULL) = (end_minute IS NULL))
        );
        CREATE INDEX worker_overrides_by_day ON worker_overrides (subject_no, day);

        -- All time that is taken, whatever for: no two of a subject's overlap.
        CREATE TABLE claims (
            id          uuid PRIMARY KEY,
            subject_no  integer NOT NULL REFERENCES subjects (no),
            starts_at   timestamptz NOT NULL,
            ends_at     timestamptz NOT NULL,
            kind        text NOT NULL CHECK (kind IN ('session', 'room', 'time_off')),
            -- A session's: what for, when its clients come and go (the rest is buffer), and how many.
            service_id  uuid REFERENCES services (id),
            begins_at   timestamptz,
            finishes_at timestamptz,
            capacity    integer CHECK (capacity > 0),
            -- A room's: which session is in it.
            session_id  uuid REFERENCES claims (id) ON DELETE CASCADE,
            -- Time off: why.
            reason      text CHECK (char_length(reason) BETWEEN 1 AND 300),
            CONSTRAINT claims_are_finite_and_whole CHECK (
                isfinite(starts_at) AND isfinite(ends_at) AND starts_at < ends_at
                AND epoch_s(starts_at) = floor(epoch_s(starts_at))
                AND epoch_s(ends_at) = floor(epoch_s(ends_at))),
            CHECK (CASE kind
                WHEN 'session' THEN num_nulls(service_id, begins_at, finishes_at, capacity) = 0
                    AND starts_at <= begins_at AND begins_at < finishes_at AND finishes_at <= ends_at
                ELSE num_nonnulls(service_id, begins_at, finishes_at, capacity) = 0 END),
            CHECK ((kind = 'room') = (session_id IS NOT NULL)),
            CHECK (kind = 'time_off' OR reason IS NULL),
            CONSTRAINT no_two_claims_overlap
                EXCLUDE USING gist (claim_box(subject_no, starts_at, ends_at) WITH &&),
            CONSTRAINT sessions_as_their_seats_see_them
                UNIQUE (id, subject_no, service_id, begins_at, finishes_at, capacity)
        );
        CREATE UNIQUE INDEX one_room_a_session ON claims (session_id) WHERE session_id IS NOT NULL;

        -- One client's seat, held or booked, and what became of it. Those that count are seats of a session.
        CREATE TABLE appointments (
            id              uuid PRIMARY KEY,
            service_id      uuid NOT NULL REFERENCES services (id),
            worker_no       integer NOT NULL REFERENCES subjects (no),
            -- Somebody with an account here, or whoever came without one.
            client_id       uuid REFERENCES users (id),
            client_name     text CHECK (char_length(client_name) BETWEEN 1 AND 120),
            client_contact  text CHECK (char_length(client_contact) BETWEEN 1 AND 300),
            status          text NOT NULL CHECK (
                                status IN ('HELD', 'BOOKED', 'CONFIRMED', 'NO_SHOW', 'CANCELED', 'EXPIRED')),
            session_id      uuid,
            seat_no         integer,
            capacity        integer NOT NULL,
            starts_at       timestamptz NOT NULL,
            ends_at         timestamptz NOT NULL,
            -- What was agreed on, and under which rules of time it was `starts_at`.
            local_starts_at timestamp NOT NULL,
            time_zone       text NOT NULL,
            tzdata_version  text NOT NULL,
            -- A hold's: until when, and which of the client's holds it is.
            expires_at      timestamptz,
            hold_no         integer,
            -- Counts its changes, for calendars.
            sequence        integer NOT NULL DEFAULT 0,
            canceled_by     text CHECK (canceled_by IN ('client', 'worker', 'operator')),
            cancel_reason   text CHECK (char_length(cancel_reason) BETWEEN 1 AND 300),
            created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            CHECK ((client_id IS NULL) = (client_name IS NOT NULL)),
            CHECK (client_name IS NOT NULL OR client_contact IS NULL),
            CONSTRAINT what_counts_has_a_seat CHECK (
                (status IN ('HELD', 'BOOKED', 'CONFIRMED', 'NO_SHOW')) = (session_id IS NOT NULL)
                AND (session_id IS NULL) = (seat_no IS NULL) AND seat_no BETWEEN 1 AND capacity),
            CONSTRAINT holds_end CHECK (
                (status = 'HELD') = (expires_at IS NOT NULL) AND (status = 'HELD') = (hold_no IS NOT NULL)),
            CONSTRAINT holds_are_somebodys CHECK (hold_no IS NULL OR client_id IS NOT NULL),
            CHECK (hold_no BETWEEN 1 AND 100),
            CHECK ((status = 'CANCELED') = (canceled_by IS NOT NULL)),
            CONSTRAINT one_client_a_seat UNIQUE (session_id, seat_no),
            CONSTRAINT clients_holds_are_counted UNIQUE (client_id, hold_no),
            -- Also that its worker, service and time are those for which the time was claimed.
            CONSTRAINT seats_are_in_their_session
                FOREIGN KEY (session_id, worker_no, service_id, starts_at, ends_at, capacity)
                REFERENCES claims (id, subject_no, service_id, begins_at, finishes_at, capacity)
                -- Whoever moves leaves one session before the next is there.
                DEFERRABLE INITIALLY IMMEDIATE
        );
        CREATE INDEX appointments_by_client ON appointments (client_id, starts_at);
        CREATE INDEX appointments_by_worker ON appointments (worker_no, starts_at);
        CREATE INDEX appointments_held ON appointments (expires_at) WHERE status = 'HELD';
        -- What the housekeeper takes when its time is over.
        CREATE INDEX appointments_expired ON appointments (changed_at) WHERE status = 'EXPIRED';
        CREATE INDEX appointments_of_walk_ins ON appointments (ends_at) WHERE client_name <> '-';
    """)
