"""Links by which a passenger lets others follow a trip."""

from catraca.platform.database.migrations import run_sql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql("""
        -- A row is a link that was made and not revoked: revoking removes it, and so does the passenger's
        -- erasure, and a housekeeper when it has expired.
        CREATE TABLE trip_shares (
            id           uuid PRIMARY KEY,
            ride_id      uuid NOT NULL REFERENCES rides (id),
            passenger_id uuid NOT NULL REFERENCES users (id),
            -- SHA-256 of the token; the token itself is kept nowhere.
            digest       bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
            -- Which of the ride's five places it takes.
            place        smallint NOT NULL CHECK (place BETWEEN 1 AND 5),
            created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at   timestamptz NOT NULL,
            CONSTRAINT five_links_a_ride UNIQUE (ride_id, place),
            CONSTRAINT links_end_within_a_day CHECK (
                expires_at > created_at AND expires_at <= created_at + interval '1 day')
        );
        CREATE INDEX trip_shares_by_passenger ON trip_shares (passenger_id);
        CREATE INDEX trip_shares_by_end ON trip_shares (expires_at);
    """)
