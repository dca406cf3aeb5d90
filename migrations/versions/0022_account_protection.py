"""Addresses of sign-ins, second factors, and e-mail addresses that are not confirmed yet."""

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

        -- One for each user. The address is not unique: it may be another user's, and that stays unsaid.
        CREATE TABLE email_changes (
            user_id    uuid PRIMARY KEY REFERENCES users (id),
            -- The code is derived from this with the instance's secret.
            id         uuid NOT NULL UNIQUE,
            email      text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
            tries      smallint NOT NULL DEFAULT 0
                       CONSTRAINT email_codes_have_few_tries CHECK (tries >= 0 AND tries <= 5),
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at timestamptz NOT NULL
        );
        CREATE INDEX email_changes_by_end ON email_changes (expires_at);
    """)
