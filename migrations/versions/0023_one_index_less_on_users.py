"""One unique index on users fewer: drivers refer to a column that only drivers have."""

from catraca.platform.database.migrations import run_sql

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_sql("""
        -- Every sign-up wrote an entry at a random place of the index on (id, drives). Entries without a
        -- value stand together at the end of an index, and most users have none here.
        ALTER TABLE users ADD COLUMN id_if_driver uuid
            GENERATED ALWAYS AS (CASE WHEN 'driver' = ANY (roles) THEN id END) STORED UNIQUE;

        -- While there is a driver's row, the role cannot be taken away.
        ALTER TABLE drivers
            DROP CONSTRAINT drivers_keep_their_role,
            DROP COLUMN drives,
            ADD CONSTRAINT drivers_keep_their_role FOREIGN KEY (user_id) REFERENCES users (id_if_driver);

        ALTER TABLE users DROP COLUMN drives;
    """)
