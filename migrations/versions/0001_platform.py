"""What every domain stands on: idempotency keys and the audit log."""

from catraca.platform.database.migrations import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql("""
        -- Written once, in the effect's own transaction: no key without its answer, no answer twice.
        CREATE TABLE idempotency_keys (
            scope       bytea PRIMARY KEY CHECK (octet_length(scope) = 32),
            fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
            status      smallint NOT NULL CHECK (status BETWEEN 200 AND 599),
            headers     bytea NOT NULL,
            body        bytea NOT NULL,
            created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

        CREATE TABLE audit_log (
            id           uuid PRIMARY KEY,
            at           timestamptz NOT NULL DEFAULT clock_timestamp(),
            actor_id     uuid,
            action       text NOT NULL,
            subject_kind text NOT NULL,
            subject_id   text NOT NULL,
            data         jsonb NOT NULL DEFAULT '{}',
            request_id   text
        );
        CREATE INDEX audit_log_by_subject ON audit_log (subject_kind, subject_id, at);
        CREATE INDEX audit_log_by_time ON audit_log (at);

        CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
                USING ERRCODE = 'integrity_constraint_violation';
        END $$;
        CREATE TRIGGER audit_log_is_append_only
            BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
