"""Devices, links and tickets end when their owner's tokens are revoked."""

from catraca.platform.database.migrations import run_sql

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_sql("""
        -- The one rule about revocation, the same as for tokens: access that was granted at `granted_at` ends
        -- when the owner revokes every token at a later time. An erased owner has revoked at 'infinity'.
        -- A worker without an account has no owner: then nothing ends it.
        CREATE FUNCTION access_holds(owner_id uuid, granted_at timestamptz) RETURNS boolean
            LANGUAGE sql STABLE PARALLEL SAFE
            RETURN NOT EXISTS (
                SELECT FROM users
                WHERE users.id = access_holds.owner_id
                  AND users.tokens_valid_after > access_holds.granted_at
            );

        -- The time at which the token was issued with which the row was made, not the time of the row: a
        -- revoked token can still be used for a second, and what it makes in that second must not outlive it.
        -- Without a default: a statement that does not give it fails.
        ALTER TABLE push_subscriptions ADD COLUMN granted_at timestamptz;
        UPDATE push_subscriptions SET granted_at = created_at;
        ALTER TABLE push_subscriptions ALTER COLUMN granted_at SET NOT NULL,
            ADD CONSTRAINT devices_are_granted_at_a_time CHECK (isfinite(granted_at));

        ALTER TABLE trip_shares ADD COLUMN granted_at timestamptz;
        UPDATE trip_shares SET granted_at = created_at;
        ALTER TABLE trip_shares ALTER COLUMN granted_at SET NOT NULL,
            ADD CONSTRAINT links_are_granted_at_a_time CHECK (isfinite(granted_at));

        -- A password link is made by an operator or by the welcome mail: its time is the time of the row.
        ALTER TABLE password_links ADD COLUMN granted_at timestamptz;
        UPDATE password_links SET granted_at = created_at;
        ALTER TABLE password_links ALTER COLUMN granted_at SET NOT NULL,
            ALTER COLUMN granted_at SET DEFAULT clock_timestamp(),
            ADD CONSTRAINT password_links_are_granted_at_a_time CHECK (isfinite(granted_at));

        -- When existing calendar links were made is in the audit log; without an entry they end, and are
        -- made again.
        ALTER TABLE subjects ADD COLUMN feed_granted_at timestamptz;
        UPDATE subjects s SET feed_granted_at = (
            SELECT max(a.at) FROM audit_log a
            WHERE a.action = 'worker.calendar_linked' AND a.subject_id = s.id::text
        ) WHERE feed_hash IS NOT NULL;
        UPDATE subjects SET feed_hash = NULL, feed_granted_at = NULL
            WHERE feed_hash IS NOT NULL AND (retired OR feed_granted_at IS NULL);
        ALTER TABLE subjects
            ADD CONSTRAINT calendar_links_are_granted_at_a_time CHECK (
                (feed_hash IS NULL) = (feed_granted_at IS NULL)),
            ADD CONSTRAINT calendar_link_times_are_finite CHECK (isfinite(feed_granted_at)),
            ADD CONSTRAINT retired_workers_have_no_link CHECK (NOT retired OR feed_hash IS NULL);
    """)
