"""Every stored time and number is finite by a CHECK, or is in a list here with the reason."""

from collections.abc import Sequence
from uuid import uuid4

import asyncpg

from tests.servers import Stack

# Columns that no value of a request reaches, by the reason. JSON of PostgreSQL has text for infinity and NaN,
# which our decoders refuse: one such row fails every list that contains it.
UNCHECKED = {
    "written by the database's clock": """
        appointments.changed_at appointments.created_at audit_log.at
        captures.captured_at charge_events.at charges.opened_at charges.updated_at
        community_versions.changed_at
        dead_letters.decided_at dead_letters.died_at dead_letters.edited_at demand_alerts.at
        driver_presence.changed_at driver_presence.free_since driver_presence.seen_at drivers.approval_at
        drivers.updated_at email_changes.created_at idempotency_keys.created_at inbox.handled_at
        ledger_transfers.posted_at
        matching_searches.at
        notifications.created_at notifications.read_at offer_receipts.received_at outbox.created_at
        outbox_sent.created_at outbox_sent.sent_at password_links.created_at password_links.used_at
        push_subscriptions.created_at ride_accept_attempts.attempt_at ride_accept_attempts.completed_at
        ride_confirmations.created_at ride_confirmations.expired_at ride_confirmations.used_at
        ride_events.at ride_flags.flagged_at ride_flags.reviewed_at
        ride_offers.offered_at ride_offers.responded_at rides.accepted_at rides.arrived_at
        rides.canceled_at rides.completed_at rides.created_at rides.started_at rides.updated_at
        second_factors.confirmed_at second_factors.created_at services.created_at
        sign_in_addresses.seen_at sign_ups.handled_at subjects.created_at
        trip_shares.created_at users.created_at
        users.erased_at users.updated_at waitlist_entries.changed_at waitlist_entries.created_at
        waitlist_entries.queued_at
    """,
    "the database's clock and a duration that has a limit": """
        bus_active.leased_until bus_delayed.due_at bus_transient.stale_at matching_searches.next_at
        matchings.next_search_at matchings.started_at matchings.wake_at password_links.expires_at
        email_changes.expires_at
        ride_confirmations.expires_at rides.deadline_at ws_tickets.expires_at
    """,
    "our own use of infinity": """
        bus_messages.leased_until outbox.leased_until timers.awake_at users.tokens_valid_after
    """,
}


async def columns_of(connection: asyncpg.Connection) -> Sequence[asyncpg.Record]:
    """The columns that can be infinite or NaN, each with the CHECKs that mention it."""
    return await connection.fetch(
        """
        SELECT c.relname AS table, a.attname AS column,
          a.atttypid = ANY ('{date,timestamp,timestamptz}'::regtype[]) AS is_time,
          array(SELECT pg_get_expr(k.conbin, k.conrelid) FROM pg_constraint k
            WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.convalidated
              AND a.attnum = ANY (k.conkey)) AS checks
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
          AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = ANY (
            '{date,timestamp,timestamptz,real,double precision,numeric}'::regtype[])
        """
    )


async def is_finite(connection: asyncpg.Connection, column: asyncpg.Record) -> bool:
    """True if CHECKs refuse every value of the column that is not finite.

    The other columns are null. A CHECK that also refuses an ordinary value then is about those.
    """
    ordinary = "2026-05-30 14:00:00+00" if column["is_time"] else "1"
    checks = [check for check in column["checks"] if not await refuses(connection, column, check, ordinary)]
    values = ["infinity", "-infinity"] if column["is_time"] else ["infinity", "-infinity", "nan"]
    for value in values:
        if not any([await refuses(connection, column, check, value) for check in checks]):
            return False
    return True


async def refuses(connection: asyncpg.Connection, column: asyncpg.Record, check: str, value: str) -> bool:
    row = (
        f"jsonb_populate_record(NULL::{column['table']}, jsonb_build_object('{column['column']}', $1::text))"
    )
    try:
        return await connection.fetchval(f"SELECT {check} FROM {row} AS {column['table']}", value) is False
    except asyncpg.DataError:  # PostgreSQL before 17 cannot subtract infinite times
        return True


async def test_stored_times_and_numbers_are_finite(stack: Stack) -> None:
    connection = await asyncpg.connect(await stack.migrated_database(f"finite_{uuid4().hex}"))
    try:
        unchecked = {
            f"{column['table']}.{column['column']}"
            for column in await columns_of(connection)
            if not await is_finite(connection, column)
        }
    finally:
        await connection.close()
    listed = {name for names in UNCHECKED.values() for name in names.split()}
    assert unchecked == listed, " ".join(sorted(unchecked ^ listed))
