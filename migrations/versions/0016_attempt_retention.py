"""Attempts to accept a ride can be found by their age, so that old ones are deleted."""

from catraca.platform.database.migrations import run_sql

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_sql("""
        CREATE INDEX ride_accept_attempts_by_time ON ride_accept_attempts (attempt_at);
    """)
