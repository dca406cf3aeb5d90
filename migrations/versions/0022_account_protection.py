"""Addresses from which a user has signed in: strangers who guess a password must not lock the owner out."""

from catraca.platform.database.migrations import run_sql

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql("""
        CREATE TABLE sign_in_addresses (
            user_id uuid NOT NULL REFERENCES users (id),
            -- A keyed digest of e-mail and network address: the address itself is not stored.
            mark    bytea NOT NULL CHECK (octet_length(mark) = 32),
            seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (user_id, mark)
        );
        CREATE INDEX sign_in_addresses_by_age ON sign_in_addresses (seen_at);
    """)
