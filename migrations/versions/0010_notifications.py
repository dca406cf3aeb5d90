"""Notifications: what each person is told, numbered for each from 1 without a gap; tickets for sockets."""

from catraca.platform.database.migrations import run_sql

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_sql("""
        -- One row a person: whoever tells them something locks it, so numbers follow commits.
        CREATE TABLE notification_heads (
            user_id   uuid PRIMARY KEY REFERENCES users (id),
            seq       bigint NOT NULL CHECK (seq >= 0),
            -- Up to where one of the person's devices said that it has everything.
            acked_seq bigint NOT NULL DEFAULT 0,
            CONSTRAINT only_what_was_told_is_acknowledged CHECK (acked_seq BETWEEN 0 AND seq)
        ) WITH (fillfactor = 50);

        CREATE TABLE notifications (
            user_id    uuid NOT NULL REFERENCES notification_heads (user_id),
            seq        bigint NOT NULL CHECK (seq > 0),
            type       text NOT NULL CHECK (char_length(type) BETWEEN 1 AND 80),
            -- As it is sent, letter by letter.
            data       json NOT NULL,
            -- The event it tells of: nobody is told the same twice.
            event_id   uuid NOT NULL,
            -- Whom else it names: when they are erased, their name goes here too.
            about_id   uuid,
            offer_id   uuid,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            read_at    timestamptz,
            PRIMARY KEY (user_id, seq),
            CONSTRAINT told_once UNIQUE (user_id, event_id, type)
        );
        CREATE INDEX notifications_by_age ON notifications (created_at);
        CREATE INDEX notifications_about ON notifications (about_id) WHERE about_id IS NOT NULL;
        CREATE INDEX notifications_unread ON notifications (user_id, seq) WHERE read_at IS NULL;

        -- For browsers, which cannot send a token when they open a socket: used once, and soon.
        CREATE TABLE ws_tickets (
            digest           bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
            user_id          uuid NOT NULL REFERENCES users (id),
            roles            text[] NOT NULL,
            -- Of the token it was given for: the socket lives no longer.
            token_issued_at  timestamptz NOT NULL,
            token_expires_at timestamptz NOT NULL,
            expires_at       timestamptz NOT NULL
        );
        CREATE INDEX ws_tickets_by_end ON ws_tickets (expires_at);

        -- That a driver's device has an offer: told once, and beside the offer, whose row others wait for.
        CREATE TABLE offer_receipts (
            offer_id    uuid PRIMARY KEY REFERENCES ride_offers (id),
            received_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
    """)
