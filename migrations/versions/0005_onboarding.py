"""Onboarding: what became of each sign-up."""

from catraca.platform.database.migrations import run_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql("""
        -- One row for each sign-up that was handled, written in the transaction that handled it. It holds
        -- nothing of the person: the request's id only tells one request from another, and goes when the
        -- person is erased.
        CREATE TABLE sign_ups (
            id         uuid PRIMARY KEY,
            request_id uuid,
            rejected   text CHECK (rejected IN ('email_taken', 'id_taken', 'discarded')),
            handled_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );

        -- Each message is written twice, when it comes and when it is claimed: with half of a page free the
        -- second version finds room beside the first, and no index need hear of it.
        ALTER TABLE bus_messages SET (fillfactor = 48);
    """)
