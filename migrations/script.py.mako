"""${message}."""

from catraca.platform.migrations import run_sql

revision = "${up_revision}"
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    run_sql("""
    """)
