"""Dead letters a person can work with: their state, their edits, and replays through the outbox."""

from catraca.platform.database.migrations import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql("""
        -- A replay is a row addressed to one queue alone, with the message's own id; the row's is another,
        -- for the first sending is still among those that were sent.
        ALTER TABLE outbox
            ADD COLUMN queue      text,
            ADD COLUMN message_id uuid,
            ADD CONSTRAINT replays_keep_their_message CHECK ((queue IS NULL) = (message_id IS NULL));
        ALTER TABLE outbox_sent
            ADD COLUMN queue      text,
            ADD COLUMN message_id uuid;

        -- What the outbox could take as a body. PostgreSQL itself says so, so that nothing else has to guess.
        CREATE FUNCTION is_json(body bytea) RETURNS boolean
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
        BEGIN
            PERFORM pg_catalog.convert_from(body, 'UTF8')::pg_catalog.json;
            RETURN true;
        EXCEPTION WHEN OTHERS THEN
            RETURN false;
        END $$;

        ALTER TABLE dead_letters
            ADD COLUMN state           text NOT NULL DEFAULT 'waiting',
            ADD COLUMN decided_at      timestamptz,
            -- Nobody, if it was done on the command line.
            ADD COLUMN decided_by      uuid,
            ADD COLUMN decision_reason text,
            ADD COLUMN edited_at       timestamptz,
            ADD COLUMN edited_by       uuid,
            ADD COLUMN original_body   bytea,
            -- Raised by each death and each edit: a replay is of one version, and of it once at a time.
            ADD COLUMN version         integer NOT NULL DEFAULT 1,
            ADD COLUMN is_json         boolean NOT NULL GENERATED ALWAYS AS (is_json(body)) STORED,
            ADD CONSTRAINT dead_letter_states CHECK (state IN ('waiting', 'replayed', 'discarded')),
            ADD CONSTRAINT decisions_have_their_time CHECK ((state = 'waiting') = (decided_at IS NULL)),
            ADD CONSTRAINT discards_have_their_reason
                CHECK ((state = 'discarded') = (decision_reason IS NOT NULL)),
            ADD CONSTRAINT edits_keep_the_original CHECK ((edited_at IS NULL) = (original_body IS NULL));

        DROP INDEX dead_letters_by_reason;
        DROP INDEX dead_letters_by_age;
        CREATE INDEX dead_letters_by_group ON dead_letters (state, queue, reason, died_at, id);
        CREATE INDEX dead_letters_by_age ON dead_letters (died_at, id);
        CREATE INDEX dead_letters_waiting ON dead_letters (died_at, id) WHERE state = 'waiting';
        CREATE INDEX dead_letters_by_message ON dead_letters (message_id);
        -- For whoever wants to be forgotten.
        CREATE INDEX dead_letters_by_subject ON dead_letters ((headers ->> 'aggregate_id'));
        CREATE INDEX outbox_sent_replays ON outbox_sent (aggregate_id) WHERE queue IS NOT NULL;
    """)
