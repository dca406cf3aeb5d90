"""Location: which drivers are there, and roughly where."""

from catraca.platform.database.migrations import run_sql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql("""
        -- One row for each driver who was ever online. Being online is decided here; where somebody is, Redis
        -- knows better, and this is what is left when Redis forgets: seconds old, and rough.
        CREATE TABLE driver_presence (
            driver_id       uuid PRIMARY KEY REFERENCES drivers (user_id),
            online          boolean NOT NULL,
            -- Since when online, or since when not.
            changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
            seen_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
            -- Since when nobody has wanted the driver; not set while an offer or a ride holds them.
            free_since      timestamptz,
            idle_told       boolean NOT NULL DEFAULT false,
            lat             double precision CHECK (lat BETWEEN -90 AND 90),
            lng             double precision CHECK (lng BETWEEN -180 AND 180),
            position_at     timestamptz,
            accuracy_meters real CHECK (accuracy_meters >= 0),
            -- The square of a hundredth of a degree, numbered: what is searched by. Only its change touches
            -- an index, so most of what is written here is cheap.
            cell            integer,
            CONSTRAINT positions_are_whole CHECK (num_nulls(lat, lng, position_at, cell) IN (0, 4)),
            -- Where somebody is who is not at work is nobody's business.
            CONSTRAINT the_offline_are_nowhere CHECK (online OR (lat IS NULL AND free_since IS NULL))
        ) WITH (fillfactor = 50);
        CREATE INDEX drivers_online ON driver_presence (driver_id) WHERE online;
        CREATE INDEX drivers_online_by_cell ON driver_presence (cell) WHERE online;
    """)
