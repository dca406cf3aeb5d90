"""The audit log can be read by any of its columns; demand by hour and place, and where searches fail."""

from catraca.platform.database.migrations import run_sql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql("""
        -- So that all of `ride.*` are found among what was done to rides.
        ALTER TABLE audit_log ADD CONSTRAINT actions_name_their_subject CHECK (
            position('.' IN action) = 0 OR split_part(action, '.', 1) = subject_kind
        );
        -- Each way to ask has its own, newest last; the id tells lines of one moment apart.
        DROP INDEX audit_log_by_time;
        DROP INDEX audit_log_by_subject;
        CREATE INDEX audit_log_by_time ON audit_log (at, id);
        CREATE INDEX audit_log_by_kind ON audit_log (subject_kind, at, id);
        CREATE INDEX audit_log_by_subject ON audit_log (subject_id, at, id);
        CREATE INDEX audit_log_by_action ON audit_log (action, at, id);
        CREATE INDEX audit_log_by_actor ON audit_log (actor_id, at, id) WHERE actor_id IS NOT NULL;

        -- What happened in one cell (H3, resolution 7) within one hour, by the events' own times. Times are
        -- whole milliseconds: sums of fractions would depend on the order in which events come.
        CREATE TABLE demand (
            hour         timestamptz NOT NULL CHECK (extract(epoch FROM hour) % 3600 = 0),
            cell         bigint NOT NULL,
            requests     integer NOT NULL CHECK (requests >= 0),
            reassigned   integer NOT NULL CHECK (reassigned >= 0),
            matched      integer NOT NULL CHECK (matched >= 0),
            failed       integer NOT NULL CHECK (failed >= 0),
            match_sum_ms bigint NOT NULL CHECK (match_sum_ms >= 0),
            match_max_ms bigint NOT NULL CHECK (match_max_ms BETWEEN 0 AND match_sum_ms),
            PRIMARY KEY (hour, cell)
        ) WITH (fillfactor = 70);
        CREATE INDEX demand_by_cell ON demand (cell, hour);
        CREATE INDEX demand_with_failures ON demand (hour, cell) WHERE failed > 0;

        -- How the searches of a region (H3, resolution 5) ended, window by window. A row of its own, not a
        -- sum over others: whoever adds to it holds it, and so sees all that was added before.
        CREATE TABLE match_windows (
            region    bigint NOT NULL,
            starts_at timestamptz NOT NULL,
            ends_at   timestamptz NOT NULL,
            matched   integer NOT NULL CHECK (matched >= 0),
            failed    integer NOT NULL CHECK (failed >= 0),
            PRIMARY KEY (region, starts_at, ends_at),
            CHECK (starts_at < ends_at)
        ) WITH (fillfactor = 70);
        CREATE INDEX match_windows_by_age ON match_windows (ends_at);

        CREATE TABLE demand_alerts (
            id        uuid PRIMARY KEY,
            region    bigint NOT NULL,
            starts_at timestamptz NOT NULL,
            ends_at   timestamptz NOT NULL,
            -- As they were then.
            matched   integer NOT NULL,
            failed    integer NOT NULL,
            at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT one_alert_a_region_and_window UNIQUE (region, starts_at, ends_at),
            FOREIGN KEY (region, starts_at, ends_at) REFERENCES match_windows ON DELETE CASCADE
        );
        CREATE INDEX demand_alerts_by_time ON demand_alerts (at, id);
    """)
