"""A client with an account has no two appointments at overlapping times, unless an operator made one.

Events that were sent are found by their aggregate, for erasures. JSON has the shape that lists of it need.
"""

from catraca.platform.database.migrations import run_sql

revision = "0019"
down_revision = "0018"


# Constraints on JSON, by name: the table and the condition.
SHAPES = {
    "ride_prices_can_be_read": ("rides", "tariff IS NULL OR is_prices(tariff)"),
    "community_prices_can_be_read": (
        "community_versions",
        "(tariff IS NULL OR is_prices(tariff)) AND (outside_tariff IS NULL OR is_prices(outside_tariff))",
    ),
    "fences_are_polygons": (
        "community_versions",
        (
            "coalesce(fence ->> 'type', '') IN ('Polygon', 'MultiPolygon')"
            " AND coalesce(json_typeof(fence -> 'coordinates'), '') = 'array'"
        ),
    ),
    "notifications_are_objects": ("notifications", "json_typeof(data) = 'object'"),
    "audit_data_are_objects": ("audit_log", "jsonb_typeof(data) = 'object'"),
    "searches_can_be_read": (
        "matching_searches",
        "jsonb_typeof(verdicts) = 'object' AND jsonb_typeof(seen) = 'array'",
    ),
}


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
    """)
    run_sql("""
        -- Events of an erased person's rides are found, and their places rounded.
        CREATE INDEX outbox_sent_by_aggregate ON outbox_sent (aggregate_id);
    """)
    run_sql("""
        CREATE FUNCTION is_prices(tariff jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
            RETURN coalesce(jsonb_typeof(tariff) = 'object'
                AND tariff ->> 'base_cents' ~ '^[0-9]{1,15}$' AND tariff ->> 'per_km_cents' ~ '^[0-9]{1,15}$'
                AND tariff ->> 'per_minute_cents' ~ '^[0-9]{1,15}$'
                AND tariff ->> 'minimum_cents' ~ '^[0-9]{1,15}$', false);
    """)
    for name, (table, condition) in SHAPES.items():
        # Rows that were changed by hand survive: the constraint then is not valid, and the doctor says so.
        run_sql(f"""
            ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({condition}) NOT VALID;
            DO $$ BEGIN
                ALTER TABLE {table} VALIDATE CONSTRAINT {name};
            EXCEPTION WHEN check_violation THEN NULL;
            END $$;
        """)
