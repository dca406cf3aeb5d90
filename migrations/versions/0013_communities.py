"""Communities: fences in versions, which drivers are in them, and the way out that a passenger confirms."""

from catraca.platform.database.migrations import run_sql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_sql("""
        -- Raised with every change of any community and locked until it commits, so whoever holds all of them
        -- in memory asks for what came after the number it knows, and misses nothing.
        CREATE TABLE communities_revision (
            only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            revision bigint NOT NULL
        );
        INSERT INTO communities_revision (revision) VALUES (0);

        CREATE TABLE communities (
            id       uuid PRIMARY KEY,
            -- The number of its newest row in community_versions, where everything else is.
            version  integer NOT NULL CHECK (version > 0),
            revision bigint NOT NULL
        );
        CREATE INDEX communities_by_revision ON communities (revision);

        -- What a community is and was. A ride names the version it was asked for under, so none ever changes.
        CREATE TABLE community_versions (
            community_id             uuid NOT NULL REFERENCES communities (id) DEFERRABLE INITIALLY DEFERRED,
            version                  integer NOT NULL CHECK (version > 0),
            previous                 integer GENERATED ALWAYS AS (nullif(version - 1, 0)) STORED,
            name                     text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
            -- GeoJSON, a Polygon or MultiPolygon.
            fence                    json NOT NULL,
            -- What its rides cost, and those that its drivers could not take; null: as everywhere.
            tariff                   jsonb,
            outside_tariff           jsonb,
            -- Whom a passenger is asked about when nobody is there, in this order.
            fallback                 text[] NOT NULL CHECK (
                                         fallback IN ('{}', '{open}', '{neighbours}', '{neighbours,open}')),
            neighbour_ids            uuid[] NOT NULL CHECK (cardinality(neighbour_ids) <= 50),
            confirmation_ttl_seconds integer CHECK (confirmation_ttl_seconds BETWEEN 1 AND 86400),
            retired                  boolean NOT NULL DEFAULT false,
            changed_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (community_id, version),
            CONSTRAINT versions_follow_each_other FOREIGN KEY (community_id, previous)
                REFERENCES community_versions (community_id, version)
        );
        ALTER TABLE communities ADD CONSTRAINT communities_are_their_newest_version
            FOREIGN KEY (id, version) REFERENCES community_versions (community_id, version)
            DEFERRABLE INITIALLY DEFERRED;
        CREATE FUNCTION refuse_changed_versions() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a version of a community stays as it was' USING
                ERRCODE = 'check_violation', CONSTRAINT = 'versions_stay_as_they_were';
        END $$;
        CREATE TRIGGER versions_stay_as_they_were BEFORE UPDATE OR DELETE ON community_versions
            FOR EACH ROW EXECUTE FUNCTION refuse_changed_versions();

        -- Until now any id was taken for a home.
        UPDATE drivers SET home_community_id = NULL WHERE home_community_id IS NOT NULL;
        ALTER TABLE drivers ADD CONSTRAINT homes_are_communities
            FOREIGN KEY (home_community_id) REFERENCES communities (id);
        CREATE INDEX drivers_by_home ON drivers (home_community_id) WHERE home_community_id IS NOT NULL;

        -- Which communities drivers are in, and who is about to cross an edge.
        CREATE TABLE driver_communities (
            driver_id      uuid NOT NULL REFERENCES driver_presence (driver_id) ON DELETE CASCADE,
            community_id   uuid NOT NULL REFERENCES communities (id),
            inside         boolean NOT NULL,
            -- Since when inside, or since when not.
            since          timestamptz NOT NULL,
            -- Seen on the other side, clearly and ever since: from when on, how often, and when last.
            crossing_since timestamptz,
            crossing_pings integer NOT NULL DEFAULT 0,
            seen_at        timestamptz NOT NULL,
            PRIMARY KEY (driver_id, community_id),
            CONSTRAINT crossings_are_whole CHECK ((crossing_since IS NULL) = (crossing_pings = 0))
        ) WITH (fillfactor = 70);
        CREATE INDEX drivers_inside ON driver_communities (community_id) WHERE inside;
        -- Where somebody is who is not at work is nobody's business.
        CREATE FUNCTION forget_communities_of_the_offline() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM driver_communities WHERE driver_id = NEW.driver_id;
            RETURN NULL;
        END $$;
        CREATE TRIGGER the_offline_are_in_no_community AFTER UPDATE OF online ON driver_presence
            FOR EACH ROW WHEN (OLD.online AND NOT NEW.online)
            EXECUTE FUNCTION forget_communities_of_the_offline();

        -- A passenger was asked, once, whether drivers from elsewhere will do.
        CREATE TABLE ride_confirmations (
            id                uuid PRIMARY KEY,
            passenger_id      uuid NOT NULL REFERENCES users (id),
            -- SHA-256 of the token; the token itself is made from the id and kept nowhere.
            token_hash        bytea NOT NULL CHECK (octet_length(token_hash) = 32),
            -- What was asked for, and its digest.
            asked             jsonb NOT NULL,
            asked_hash        bytea NOT NULL CHECK (octet_length(asked_hash) = 32),
            community_id      uuid NOT NULL,
            community_version integer NOT NULL,
            -- How far drivers may come from once it is confirmed.
            tier              text NOT NULL CHECK (tier IN ('neighbours', 'open')),
            created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at        timestamptz NOT NULL,
            used_at           timestamptz,
            ride_id           uuid,
            -- When it was told that nobody had confirmed in time.
            expired_at        timestamptz,
            FOREIGN KEY (community_id, community_version)
                REFERENCES community_versions (community_id, version),
            CONSTRAINT used_confirmations_have_a_ride CHECK ((used_at IS NULL) = (ride_id IS NULL)),
            CONSTRAINT confirmations_are_used_in_time CHECK (used_at < expires_at),
            CONSTRAINT expired_confirmations_stay_unused CHECK (expired_at IS NULL OR used_at IS NULL),
            CONSTRAINT confirmations_and_their_rides UNIQUE (id, passenger_id, ride_id)
        ) WITH (fillfactor = 70);
        -- The passenger first: a stranger's token is looked for where one that does not exist is.
        CREATE UNIQUE INDEX one_confirmation_a_token ON ride_confirmations (passenger_id, token_hash);
        CREATE UNIQUE INDEX one_live_confirmation_a_request ON ride_confirmations (passenger_id, asked_hash)
            WHERE used_at IS NULL AND expired_at IS NULL;
        CREATE INDEX ride_confirmations_expired ON ride_confirmations (expired_at)
            WHERE expired_at IS NOT NULL;

        ALTER TABLE rides
            ADD COLUMN type              text NOT NULL DEFAULT 'normal'
                                         CHECK (type IN ('normal', 'comunidade')),
            ADD COLUMN community_id      uuid,
            ADD COLUMN community_version integer,
            -- How far drivers may come from.
            ADD COLUMN tier              text CHECK (tier IN ('home', 'neighbours', 'open')),
            -- By what it is charged, where that is not the general tariff.
            ADD COLUMN tariff            jsonb,
            -- What the passenger's app thought it would cost.
            ADD COLUMN asked_price_cents bigint CHECK (asked_price_cents >= 0),
            ADD COLUMN confirmation_id   uuid,
            ADD CONSTRAINT one_ride_a_confirmation UNIQUE (confirmation_id),
            ADD CONSTRAINT rides_and_their_confirmations UNIQUE (id, confirmation_id, passenger_id),
            -- One that was used for this very ride: an unused one, or another's, makes none.
            ADD CONSTRAINT rides_name_their_confirmation FOREIGN KEY (confirmation_id, passenger_id, id)
                REFERENCES ride_confirmations (id, passenger_id, ride_id),
            ADD CONSTRAINT community_rides_name_their_community CHECK (
                (type = 'comunidade') = (community_id IS NOT NULL)
                AND num_nulls(community_id, community_version, tier) IN (0, 3)),
            ADD CONSTRAINT rides_beyond_the_fence_were_confirmed CHECK (
                tier IS NULL OR tier = 'home' OR confirmation_id IS NOT NULL),
            ADD CONSTRAINT rides_name_a_version FOREIGN KEY (community_id, community_version)
                REFERENCES community_versions (community_id, version);
        -- A confirmation names the ride that names it, of the same passenger; at the commit.
        ALTER TABLE ride_confirmations ADD CONSTRAINT confirmations_name_their_ride
            FOREIGN KEY (ride_id, id, passenger_id) REFERENCES rides (id, confirmation_id, passenger_id)
            DEFERRABLE INITIALLY DEFERRED;
    """)
