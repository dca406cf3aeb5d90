"""Dates and moments that a request can set are from 1970-01-01 to 2199-12-31, and numbers are finite."""

from catraca.platform.database.migrations import run_sql

revision = "0017"
down_revision = "0016"

# The columns that a value of a request, or one computed from it, can reach, by constraint.
CONSTRAINTS = {
    "worker_rules_times_in_range": ("valid_from", "valid_to"),
    "worker_overrides_times_in_range": ("day",),
    "claims_times_in_range": ("starts_at", "ends_at", "begins_at", "finishes_at"),
    "appointments_times_in_range": ("starts_at", "ends_at", "expires_at"),
    "freed_time_times_in_range": ("starts_at", "ends_at"),
    "waitlist_entries_times_in_range": ("starts_from", "starts_before"),
    "timers_times_in_range": ("due_at",),
    "driver_presence_times_in_range": ("position_at",),
    "driver_communities_times_in_range": ("since", "crossing_since", "seen_at"),
    "trip_shares_times_in_range": ("expires_at",),
    "ride_offers_times_in_range": ("expires_at",),
    # From the times of events, which operators can edit in dead letters.
    "demand_times_in_range": ("hour",),
    "match_windows_times_in_range": ("starts_at", "ends_at"),
    "demand_alerts_times_in_range": ("starts_at", "ends_at"),
}


def upgrade() -> None:
    run_sql("""
        CREATE FUNCTION is_plausible(day date) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
            RETURN day BETWEEN date '1970-01-01' AND date '2199-12-31';
        CREATE FUNCTION is_plausible(moment timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
            RETURN moment >= timestamptz '1970-01-01 00:00:00+00'
                AND moment < timestamptz '2200-01-01 00:00:00+00';

        -- The nearest value in the range; for this migration only.
        CREATE FUNCTION clamped(day date) RETURNS date LANGUAGE sql IMMUTABLE STRICT
            RETURN greatest(least(day, date '2199-12-31'), date '1970-01-01');
        CREATE FUNCTION clamped(moment timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT
            RETURN greatest(least(moment, timestamptz '2199-12-31 23:59:59+00'),
                            timestamptz '1970-01-01 00:00:00+00');

        -- Clamped, these would be empty, or equal to another row. They are about no time that can be booked.
        DELETE FROM claims WHERE kind = 'time_off' AND clamped(starts_at) = clamped(ends_at);
        DELETE FROM freed_time WHERE clamped(starts_at) = clamped(ends_at);
        DELETE FROM demand WHERE NOT is_plausible(hour);
        DELETE FROM match_windows WHERE NOT (is_plausible(starts_at) AND is_plausible(ends_at));
    """)
    # Seats have the time of their session; both are clamped before that is checked.
    run_sql("SET CONSTRAINTS ALL DEFERRED")
    for name, columns in CONSTRAINTS.items():
        clamped = ", ".join(f"{column} = clamped({column})" for column in columns)
        run_sql(f"UPDATE {_table(name)} SET {clamped} WHERE NOT ({_condition(columns)})")  # noqa: S608
    run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    for name, columns in CONSTRAINTS.items():
        run_sql(f"ALTER TABLE {_table(name)} ADD CONSTRAINT {name} CHECK ({_condition(columns)})")
    run_sql("""
        DROP FUNCTION clamped(date), clamped(timestamptz);

        -- An identity provider may sign tokens for centuries.
        DELETE FROM ws_tickets WHERE NOT (isfinite(token_issued_at) AND isfinite(token_expires_at));
        ALTER TABLE ws_tickets ADD CONSTRAINT token_times_are_finite
            CHECK (isfinite(token_issued_at) AND isfinite(token_expires_at));
        -- Computed from `starts_at`, and so within a day of the range.
        ALTER TABLE appointments ADD CONSTRAINT local_starts_are_finite CHECK (isfinite(local_starts_at));

        -- For PostgreSQL, NaN is greater than every other number.
        UPDATE driver_presence SET accuracy_meters = NULL WHERE accuracy_meters > 100000;
        ALTER TABLE driver_presence ADD CONSTRAINT accuracies_are_finite CHECK (accuracy_meters <= 100000);
        ALTER TABLE matchings ADD CONSTRAINT matchings_are_on_earth
            CHECK (lat BETWEEN -90 AND 90 AND lng BETWEEN -180 AND 180);
    """)


def _table(constraint: str) -> str:
    return constraint.removesuffix("_times_in_range")


def _condition(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"is_plausible({column})" for column in columns)
