"""A client with an account has no two appointments at overlapping times, unless an operator made one.

And events that were sent are found by their aggregate, for erasures.
"""

from catraca.platform.database.migrations import run_sql

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_sql("""
        -- A client's time as a box without width, like `claim_box`. A coordinate has 53 bits, so the box has
        -- 48 bits of the id, and the point the other 80. Together they are equal for one client only.
        CREATE FUNCTION client_box(client_id uuid, starts_at timestamptz, ends_at timestamptz) RETURNS box
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN box(
                point(('x' || right(client_id::text, 12))::bit(48)::bigint, epoch_s(starts_at)),
                point(('x' || right(client_id::text, 12))::bit(48)::bigint, epoch_s(ends_at) - 1));
        CREATE FUNCTION client_point(client_id uuid) RETURNS point
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN point(
                ('x' || left(replace(client_id::text, '-', ''), 10))::bit(40)::bigint,
                ('x' || substr(replace(client_id::text, '-', ''), 11, 10))::bit(40)::bigint);

        -- Booked or last moved by an operator or a service, who may give a client two appointments at once.
        ALTER TABLE appointments ADD COLUMN made_by_operator boolean NOT NULL DEFAULT false;
        UPDATE appointments SET made_by_operator = true
        WHERE id::text IN (SELECT subject_id FROM audit_log
            WHERE action IN ('appointment.booked', 'appointment.rescheduled', 'appointment.swapped'));
        -- Appointments that overlap an earlier one were allowed when they were made, and stay.
        UPDATE appointments a SET made_by_operator = true
        WHERE status IN ('HELD', 'BOOKED', 'CONFIRMED') AND NOT made_by_operator AND EXISTS (
            SELECT FROM appointments b
            WHERE b.client_id = a.client_id AND b.status IN ('HELD', 'BOOKED', 'CONFIRMED')
              AND NOT b.made_by_operator AND (b.created_at, b.id) < (a.created_at, a.id)
              AND b.starts_at < a.ends_at AND a.starts_at < b.ends_at);
        ALTER TABLE appointments ADD CONSTRAINT no_client_is_in_two_places
            EXCLUDE USING gist (
                client_box(client_id, starts_at, ends_at) WITH &&, client_point(client_id) WITH ~=)
            WHERE (client_id IS NOT NULL AND NOT made_by_operator
                AND status IN ('HELD', 'BOOKED', 'CONFIRMED'));

        -- Events of an erased person's rides are found, and their places rounded.
        CREATE INDEX outbox_sent_by_aggregate ON outbox_sent (aggregate_id);
    """)
