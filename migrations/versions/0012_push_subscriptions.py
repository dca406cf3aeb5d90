"""Devices that are to be reached while they are not connected, by web push."""

from catraca.platform.database.migrations import run_sql

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_sql("""
        CREATE TABLE push_subscriptions (
            id         uuid PRIMARY KEY,
            user_id    uuid NOT NULL REFERENCES users (id),
            -- Where the device's maker takes messages for it, and the keys only the device can read with.
            endpoint   text NOT NULL CHECK (char_length(endpoint) BETWEEN 1 AND 1000),
            p256dh     text NOT NULL CHECK (char_length(p256dh) BETWEEN 80 AND 100),
            auth       text NOT NULL CHECK (char_length(auth) BETWEEN 20 AND 30),
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            -- A device belongs to whoever used it last.
            CONSTRAINT one_owner_a_device UNIQUE (endpoint)
        );
        CREATE INDEX push_subscriptions_by_user ON push_subscriptions (user_id, created_at);
    """)
