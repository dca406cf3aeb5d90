"""Stored responses have the roles of the token that got them, and are replayed only to these roles."""

from catraca.platform.database.migrations import run_sql

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_sql("""
        -- NULL in rows from before: their roles are not known, so they are not replayed.
        ALTER TABLE idempotency_keys ADD COLUMN roles text[];
    """)
