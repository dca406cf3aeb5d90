"""Addresses of sign-ins, and second factors."""

from catraca.platform.database.migrations import run_sql

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql("""
        -- Strangers who guess a password must not lock the owner out: the owner's addresses are known.
        CREATE TABLE sign_in_addresses (
            user_id uuid NOT NULL REFERENCES users (id),
            -- A keyed digest of e-mail and network address: the address itself is not stored.
            mark    bytea NOT NULL CHECK (octet_length(mark) = 32),
            seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (user_id, mark)
        );
        CREATE INDEX sign_in_addresses_by_age ON sign_in_addresses (seen_at);

        CREATE TABLE second_factors (
            user_id      uuid PRIMARY KEY REFERENCES users (id),
            -- Encrypted with a key made of the instance's secret.
            secret       bytea NOT NULL CHECK (octet_length(secret) BETWEEN 29 AND 200),
            -- Null: begun, and not asked for at sign-in.
            confirmed_at timestamptz,
            -- The time step of the last code: a code works once, and no older one after it.
            last_step    bigint NOT NULL DEFAULT 0,
            created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX second_factors_begun ON second_factors (created_at) WHERE confirmed_at IS NULL;

        CREATE TABLE recovery_codes (
            user_id uuid NOT NULL CONSTRAINT recovery_codes_have_a_factor
                    REFERENCES second_factors (user_id) ON DELETE CASCADE,
            -- A keyed digest; using a code deletes its row.
            digest  bytea NOT NULL CHECK (octet_length(digest) = 32),
            PRIMARY KEY (user_id, digest)
        );
    """)
