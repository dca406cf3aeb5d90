"""News leaves with the fact: outbox, inbox, the queues of the PostgreSQL bus, dead letters, timers."""

from catraca.platform.database.migrations import run_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql("""
        -- Numbers the events of each aggregate. Whoever takes a number holds the row until commit, so
        -- numbers are gapless and a later one is never visible before an earlier one.
        CREATE TABLE outbox_heads (
            aggregate_id uuid PRIMARY KEY,
            seq          bigint NOT NULL CHECK (seq > 0)
        ) WITH (fillfactor = 70);

        -- Only what has not been sent yet, so that what is kept costs the relay nothing.
        CREATE TABLE outbox (
            id           uuid PRIMARY KEY,
            position     bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
            aggregate_id uuid NOT NULL,
            seq          bigint NOT NULL,
            exchange     text NOT NULL,
            routing_key  text NOT NULL,
            headers      json NOT NULL,
            body         json NOT NULL,
            created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            lease        uuid,
            leased_until timestamptz NOT NULL DEFAULT '-infinity',
            failures     integer NOT NULL DEFAULT 0,
            UNIQUE (aggregate_id, seq)
        ) WITH (fillfactor = 70);

        -- What was sent, for a while: to compare events with changes.
        CREATE TABLE outbox_sent (
            id           uuid PRIMARY KEY,
            aggregate_id uuid NOT NULL,
            seq          bigint NOT NULL,
            exchange     text NOT NULL,
            routing_key  text NOT NULL,
            headers      json NOT NULL,
            body         json NOT NULL,
            created_at   timestamptz NOT NULL,
            sent_at      timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX outbox_sent_by_age ON outbox_sent (sent_at);

        -- One row for each event a consumer applied, written in the transaction that applied it.
        CREATE TABLE inbox (
            consumer   text NOT NULL,
            event_id   uuid NOT NULL,
            handled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (consumer, event_id)
        );
        CREATE INDEX inbox_by_age ON inbox (handled_at);

        -- The queues of the PostgreSQL bus. A row is in hand while its lease runs.
        CREATE TABLE bus_messages (
            queue        text NOT NULL,
            id           bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
            message_id   uuid NOT NULL,
            exchange     text NOT NULL,
            routing_key  text NOT NULL,
            headers      json NOT NULL,
            body         bytea NOT NULL,
            deliveries   integer NOT NULL DEFAULT 0,
            lease        uuid,
            leased_until timestamptz NOT NULL DEFAULT '-infinity',
            PRIMARY KEY (queue, id)
        ) WITH (fillfactor = 70);

        -- Messages waiting for another try; they come back to the end of their queue when due.
        CREATE TABLE bus_delayed (
            id          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
            due_at      timestamptz NOT NULL,
            queue       text NOT NULL,
            message_id  uuid NOT NULL,
            exchange    text NOT NULL,
            routing_key text NOT NULL,
            headers     json NOT NULL,
            body        bytea NOT NULL
        );
        CREATE INDEX bus_delayed_by_due ON bus_delayed (due_at);

        -- Positions and the like: lost in a crash of the server, which is as well, for they would be stale.
        CREATE UNLOGGED TABLE bus_transient (
            queue       text NOT NULL,
            id          bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
            message_id  uuid NOT NULL,
            exchange    text NOT NULL,
            routing_key text NOT NULL,
            headers     json NOT NULL,
            body        bytea NOT NULL,
            stale_at    timestamptz NOT NULL,
            PRIMARY KEY (queue, id)
        );

        -- Which consumer a queue with a single active one has.
        CREATE TABLE bus_active (
            queue        text PRIMARY KEY,
            lease        uuid NOT NULL,
            leased_until timestamptz NOT NULL
        );

        CREATE TABLE dead_letters (
            id          uuid PRIMARY KEY,
            queue       text NOT NULL,
            message_id  uuid NOT NULL,
            exchange    text NOT NULL,
            routing_key text NOT NULL,
            reason      text NOT NULL,
            headers     jsonb NOT NULL,
            body        bytea NOT NULL,
            died_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
            times       integer NOT NULL DEFAULT 1,
            -- The same message may die again, after a crash or a replay; it stays one letter.
            UNIQUE (queue, message_id)
        );
        CREATE INDEX dead_letters_by_reason ON dead_letters (queue, reason, died_at);
        CREATE INDEX dead_letters_by_age ON dead_letters (died_at);

        CREATE TABLE timers (
            kind       text NOT NULL,
            subject_id uuid NOT NULL,
            due_at     timestamptz NOT NULL,
            -- When to look at it: when it is due, or later while a lease runs or after a failure.
            awake_at   timestamptz NOT NULL,
            lease      uuid,
            failures   integer NOT NULL DEFAULT 0,
            PRIMARY KEY (kind, subject_id),
            CONSTRAINT timers_wake_when_due CHECK (awake_at >= due_at)
        );
        -- By kind first: a process looks only for what it has handlers for, past any pile of other kinds.
        CREATE INDEX timers_by_time ON timers (kind, awake_at);
    """)
