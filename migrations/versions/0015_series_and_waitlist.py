"""Series of appointments, and lines of clients who wait for a time to become free."""

from catraca.platform.database.migrations import run_sql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_sql("""
        -- A client's place in the line for a service, and what became of it.
        CREATE TABLE waitlist_entries (
            id            uuid PRIMARY KEY,
            service_id    uuid NOT NULL REFERENCES services (id),
            -- With whom; null: anybody who does it.
            worker_no     integer REFERENCES subjects (no),
            client_id     uuid NOT NULL REFERENCES users (id),
            -- When it may begin; the end is not included.
            starts_from   timestamptz NOT NULL,
            starts_before timestamptz NOT NULL,
            status        text NOT NULL DEFAULT 'WAITING' CHECK (
                              status IN ('WAITING', 'OFFERED', 'BOOKED', 'EXPIRED', 'CANCELED')),
            -- What is offered, and what was booked of it.
            hold_id       uuid UNIQUE REFERENCES appointments (id),
            -- Its place in the line: whoever declines goes to the end.
            queued_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
            changed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
            CHECK (starts_from < starts_before),
            CONSTRAINT an_offer_is_a_hold CHECK ((status IN ('OFFERED', 'BOOKED')) = (hold_id IS NOT NULL))
        );
        CREATE INDEX waitlist_entries_in_line ON waitlist_entries (service_id, queued_at, id)
            WHERE status = 'WAITING';
        CREATE INDEX waitlist_entries_by_client ON waitlist_entries (client_id, id);

        -- Time that became free while somebody waited, until those in line have been asked.
        CREATE TABLE freed_time (
            id         uuid PRIMARY KEY,
            subject_no integer NOT NULL REFERENCES subjects (no),
            starts_at  timestamptz NOT NULL,
            ends_at    timestamptz NOT NULL,
            CHECK (starts_at < ends_at)
        );

        ALTER TABLE appointments
            -- Those that were booked together.
            ADD COLUMN series_id uuid,
            -- For whose place in line it was held.
            ADD COLUMN waitlist_entry_id uuid REFERENCES waitlist_entries (id),
            -- An offer is the client's hold number 0: one at a time, beside those they may have anyway.
            DROP CONSTRAINT appointments_hold_no_check,
            ADD CHECK (hold_no BETWEEN 0 AND 100),
            ADD CONSTRAINT offers_are_number_0 CHECK (
                hold_no IS NULL OR (hold_no = 0) = (waitlist_entry_id IS NOT NULL));
        CREATE INDEX appointments_by_series ON appointments (series_id, starts_at)
            WHERE series_id IS NOT NULL;
        CREATE INDEX appointments_offered ON appointments (waitlist_entry_id)
            WHERE waitlist_entry_id IS NOT NULL;
    """)
