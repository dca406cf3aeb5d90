"""The rooms of a service are found without reading its workers."""

from catraca.platform.database.migrations import run_sql

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_sql("""
        ALTER TABLE subjects ADD CONSTRAINT subjects_with_kind UNIQUE (no, kind);
        ALTER TABLE service_subjects ADD COLUMN kind text NOT NULL DEFAULT 'worker';
        UPDATE service_subjects SET kind = 'room'
        WHERE subject_no IN (SELECT no FROM subjects WHERE kind = 'room');
        -- A subject has one kind, so it is still at most once in a service.
        ALTER TABLE service_subjects
            DROP CONSTRAINT service_subjects_pkey,
            ADD PRIMARY KEY (service_id, kind, subject_no),
            DROP CONSTRAINT service_subjects_subject_no_fkey,
            ADD CONSTRAINT service_subjects_have_their_kind
                FOREIGN KEY (subject_no, kind) REFERENCES subjects (no, kind);
    """)
