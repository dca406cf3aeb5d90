"""Matching: one row for each ride a driver is looked for, and what each search found."""

from catraca.platform.database.migrations import run_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql("""
        CREATE TABLE matchings (
            ride_id        uuid PRIMARY KEY REFERENCES rides (id),
            round          integer NOT NULL CHECK (round > 0),
            phase          text NOT NULL CHECK (phase IN ('searching', 'matched', 'ended')),
            -- The search under way or to come, and how many offers it has made.
            search         integer NOT NULL CHECK (search > 0),
            offers         integer NOT NULL CHECK (offers >= 0),
            -- Since when a driver is looked for in this round.
            started_at     timestamptz NOT NULL,
            -- Set while nobody more can be asked: when to look again.
            next_search_at timestamptz,
            wake_at        timestamptz,
            -- Where the ride begins: whoever comes online near by wakes those who wait here.
            lat            double precision NOT NULL,
            lng            double precision NOT NULL,
            cell           integer NOT NULL,
            CONSTRAINT only_who_searches_waits CHECK (
                (wake_at IS NOT NULL) = (phase = 'searching')
                AND (next_search_at IS NULL OR phase = 'searching'))
        ) WITH (fillfactor = 70);
        CREATE INDEX matchings_open ON matchings (ride_id) WHERE phase = 'searching';
        CREATE INDEX matchings_waiting_by_cell ON matchings (cell)
            WHERE phase = 'searching' AND next_search_at IS NOT NULL;

        -- Why somebody came, or nobody: each look around, whom it saw, and why they were not asked.
        CREATE TABLE matching_searches (
            id            uuid PRIMARY KEY,
            ride_id       uuid NOT NULL REFERENCES rides (id),
            round         integer NOT NULL CHECK (round > 0),
            search        integer NOT NULL CHECK (search > 0),
            at            timestamptz NOT NULL DEFAULT clock_timestamp(),
            radius_meters integer NOT NULL CHECK (radius_meters >= 0),
            source        text NOT NULL CHECK (source IN ('redis', 'database')),
            -- What led to this look.
            cause         text NOT NULL
                              CHECK (cause IN ('begun', 'offer_ended', 'due', 'driver_near', 'all_asked')),
            -- What it came to: somebody was asked, or why not.
            outcome       text NOT NULL CHECK (outcome IN (
                              'asked', 'nobody_near', 'all_asked', 'snatched', 'index_away', 'waits_on')),
            -- When the next look was to come, should nothing happen before.
            next_at       timestamptz,
            -- How many drivers each verdict was given to; and some of them, the nearest, with their distance.
            verdicts      jsonb NOT NULL,
            seen          jsonb NOT NULL,
            CONSTRAINT who_asked_nobody_looks_again CHECK (outcome = 'asked' OR next_at IS NOT NULL)
        );
        CREATE INDEX matching_searches_by_ride ON matching_searches (ride_id, at);
        CREATE INDEX matching_searches_by_age ON matching_searches (at);
        CREATE TRIGGER searches_never_change BEFORE UPDATE ON matching_searches
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
