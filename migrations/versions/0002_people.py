"""People: users, drivers, password links."""

from catraca.platform.database.migrations import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql(r"""
        CREATE TABLE users (
            id                 uuid PRIMARY KEY,
            name               text CHECK (char_length(name) BETWEEN 1 AND 120),
            email              text CHECK (char_length(email) <= 254),
            -- Case folding is Python's: the embedded server has no ICU, and both servers must agree.
            email_folded       text UNIQUE CHECK (char_length(email_folded) <= 254),
            phone              text CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
            language           text NOT NULL DEFAULT 'pt-BR' CHECK (language IN ('pt-BR', 'en')),
            roles              text[] NOT NULL
                               CHECK (roles <@ ARRAY['passenger', 'driver', 'worker', 'operator', 'service']),
            password_hash      text,
            tokens_valid_after timestamptz,
            erased_at          timestamptz,
            created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
            updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT emails_are_folded CHECK ((email IS NULL) = (email_folded IS NULL)),
            -- Erased means erased: no code path can leave a name behind or let the person in again.
            CONSTRAINT erased_users_hold_nothing CHECK (
                erased_at IS NULL
                OR (num_nonnulls(name, email, phone, password_hash) = 0
                    AND tokens_valid_after IS NOT DISTINCT FROM 'infinity')
            )
        );
        CREATE INDEX users_by_role ON users USING gin (roles);

        -- Something for a driver's row to hold on to: while there is one, the role cannot be taken away.
        ALTER TABLE users
            ADD COLUMN drives boolean NOT NULL GENERATED ALWAYS AS ('driver' = ANY (roles)) STORED,
            ADD UNIQUE (id, drives);

        CREATE TABLE drivers (
            user_id           uuid PRIMARY KEY,
            vehicle           text CHECK (char_length(vehicle) BETWEEN 1 AND 80),
            plate             text CHECK (plate ~ '^[A-Z0-9]{4,10}$'),
            home_community_id uuid,
            approval          text NOT NULL
                              CHECK (approval IN ('pending', 'approved', 'refused', 'suspended')),
            approval_reason   text CHECK (char_length(approval_reason) <= 300),
            approval_by       uuid REFERENCES users (id),
            approval_at       timestamptz,
            updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            drives            boolean NOT NULL DEFAULT true CHECK (drives),
            CONSTRAINT drivers_keep_their_role FOREIGN KEY (user_id, drives) REFERENCES users (id, drives),
            -- Only approval by setting may be without a person; every later verdict names who gave it.
            CONSTRAINT verdicts_name_their_giver CHECK (
                approval IN ('pending', 'approved') OR approval_by IS NOT NULL
            )
        );
        CREATE INDEX drivers_waiting ON drivers (user_id) WHERE approval = 'pending';

        -- Only the hash is stored; a link is used by one guarded UPDATE.
        CREATE TABLE password_links (
            token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
            user_id      uuid NOT NULL REFERENCES users (id),
            expires_at   timestamptz NOT NULL,
            used_at      timestamptz,
            created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        -- A new link replaces the one before it.
        CREATE UNIQUE INDEX one_unused_password_link_a_user ON password_links (user_id) WHERE used_at IS NULL;
        CREATE INDEX password_links_by_user ON password_links (user_id);
    """)
