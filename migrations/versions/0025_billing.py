"""Double-entry ledger, charges, captures; late payment of rides."""

from catraca.platform.database.migrations import run_sql

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_sql("""
        -- An account of the ledger. Balances are kept for the accounts of people only: each posting would
        -- change the row of the platform's account, one after the other.
        CREATE TABLE ledger_accounts (
            no            bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
            kind          text NOT NULL CHECK (kind IN ('receivable', 'unearned', 'commission', 'driver')),
            owner_id      uuid REFERENCES users (id),
            currency      text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
            debits_cents  bigint NOT NULL DEFAULT 0,
            credits_cents bigint NOT NULL DEFAULT 0,
            CONSTRAINT one_account_a_kind_owner_and_currency
                UNIQUE NULLS NOT DISTINCT (kind, owner_id, currency),
            CONSTRAINT accounts_have_one_currency UNIQUE (no, currency),
            CONSTRAINT drivers_accounts_have_an_owner CHECK ((kind = 'driver') = (owner_id IS NOT NULL))
        ) WITH (fillfactor = 70);

        -- A fact that moves money, and its postings: pairs of debit and credit, so that they always balance.
        CREATE TABLE ledger_transfers (
            id          uuid PRIMARY KEY,
            kind        text NOT NULL CHECK (kind IN ('charge_opened', 'cash_captured')),
            -- The charge or the capture.
            cause_id    uuid NOT NULL,
            currency    text NOT NULL,
            total_cents bigint NOT NULL CHECK (total_cents > 0),
            posted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT one_transfer_a_fact UNIQUE (kind, cause_id),
            CONSTRAINT transfers_have_one_currency UNIQUE (id, currency)
        );
        CREATE TABLE ledger_postings (
            transfer_id uuid NOT NULL,
            n           integer NOT NULL CHECK (n > 0),
            debit_no    bigint NOT NULL,
            credit_no   bigint NOT NULL,
            currency    text NOT NULL,
            cents       bigint NOT NULL CHECK (cents > 0),
            PRIMARY KEY (transfer_id, n),
            CONSTRAINT postings_have_their_transfers_currency FOREIGN KEY (transfer_id, currency)
                REFERENCES ledger_transfers (id, currency),
            CONSTRAINT debits_have_the_accounts_currency FOREIGN KEY (debit_no, currency)
                REFERENCES ledger_accounts (no, currency),
            CONSTRAINT credits_have_the_accounts_currency FOREIGN KEY (credit_no, currency)
                REFERENCES ledger_accounts (no, currency),
            CONSTRAINT postings_have_two_accounts CHECK (debit_no <> credit_no)
        );
        CREATE INDEX ledger_postings_by_debit ON ledger_postings (debit_no, transfer_id);
        CREATE INDEX ledger_postings_by_credit ON ledger_postings (credit_no, transfer_id);

        CREATE FUNCTION refuse_ledger_changes() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
        END $$;
        CREATE TRIGGER transfers_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfers
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_changes();
        CREATE TRIGGER postings_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_postings
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_changes();

        -- Checked at the commit, from both sides: no posting can be added to a committed transfer.
        CREATE FUNCTION check_transfer_total() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            checked uuid;
        BEGIN
            IF TG_TABLE_NAME = 'ledger_transfers' THEN
                checked := NEW.id;
            ELSE
                checked := NEW.transfer_id;
            END IF;
            IF (SELECT total_cents FROM ledger_transfers WHERE id = checked)
                IS DISTINCT FROM (SELECT sum(cents) FROM ledger_postings WHERE transfer_id = checked)
            THEN
                RAISE EXCEPTION 'the postings of a transfer do not add up to its total' USING
                    ERRCODE = 'check_violation', CONSTRAINT = 'postings_add_up_to_the_total';
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER transfers_add_up AFTER INSERT ON ledger_transfers
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_transfer_total();
        CREATE CONSTRAINT TRIGGER postings_add_up AFTER INSERT ON ledger_postings
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_transfer_total();

        CREATE FUNCTION add_postings_to_balances() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            -- Accounts are locked in the order of their numbers, so that two transfers cannot deadlock.
            PERFORM FROM ledger_accounts
            WHERE owner_id IS NOT NULL
              AND no IN (SELECT debit_no FROM added UNION ALL SELECT credit_no FROM added)
            ORDER BY no FOR NO KEY UPDATE;
            UPDATE ledger_accounts a SET debits_cents = a.debits_cents + s.debits,
                credits_cents = a.credits_cents + s.credits
            FROM (
                SELECT no, sum(debit) AS debits, sum(credit) AS credits
                FROM (SELECT debit_no AS no, cents AS debit, 0 AS credit FROM added
                      UNION ALL SELECT credit_no, 0, cents FROM added) AS sides
                GROUP BY no) AS s
            WHERE a.no = s.no AND a.owner_id IS NOT NULL;
            RETURN NULL;
        END $$;
        CREATE TRIGGER postings_change_balances AFTER INSERT ON ledger_postings
            REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_postings_to_balances();

        -- An amount that the passenger owes for a ride.
        CREATE TABLE charges (
            id                      uuid PRIMARY KEY,
            ride_id                 uuid NOT NULL REFERENCES rides (id),
            purpose                 text NOT NULL CHECK (purpose IN ('fare')),
            payer_id                uuid NOT NULL REFERENCES users (id),
            payee_id                uuid NOT NULL REFERENCES drivers (user_id),
            amount_cents            bigint NOT NULL CHECK (amount_cents >= 0),
            currency                text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
            -- The commission as it was when the charge was opened, in hundredths of a percent.
            commission_basis_points integer NOT NULL CHECK (commission_basis_points BETWEEN 0 AND 10000),
            status                  text NOT NULL CHECK (status IN ('PENDING', 'PAID', 'EXPIRED')),
            -- The number of the charge's last row in charge_events.
            version                 integer NOT NULL DEFAULT 1,
            opened_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
            -- NULL: the time to pay has no end.
            expires_at              timestamptz CHECK (is_plausible(expires_at)),
            updated_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
            CONSTRAINT charges_have_two_parties CHECK (payer_id <> payee_id)
        ) WITH (fillfactor = 70);
        CREATE UNIQUE INDEX one_charge_a_ride_and_purpose ON charges (ride_id, purpose);
        CREATE INDEX charges_by_payer ON charges (payer_id, id);
        CREATE INDEX charges_by_payee ON charges (payee_id, id);

        -- Each step of a charge, as ride_events has those of a ride.
        CREATE TABLE charge_events (
            charge_id   uuid NOT NULL,
            seq         integer NOT NULL CHECK (seq > 0),
            previous    integer GENERATED ALWAYS AS (nullif(seq - 1, 0)) STORED,
            from_status text,
            to_status   text NOT NULL,
            at          timestamptz NOT NULL DEFAULT clock_timestamp(),
            actor       text NOT NULL CHECK (actor IN ('driver', 'system')),
            actor_id    uuid,
            PRIMARY KEY (charge_id, seq),
            UNIQUE (charge_id, seq, to_status),
            CONSTRAINT charge_steps_follow_each_other FOREIGN KEY (charge_id, previous, from_status)
                REFERENCES charge_events (charge_id, seq, to_status),
            CONSTRAINT only_allowed_charge_moves CHECK (
                CASE WHEN seq = 1 THEN from_status IS NULL AND to_status IN ('PENDING', 'PAID')
                ELSE coalesce(from_status || '>' || to_status, '') IN (
                    'PENDING>PAID', 'PENDING>EXPIRED', 'EXPIRED>PAID')
                END)
        );
        ALTER TABLE charges ADD CONSTRAINT charges_stand_where_their_steps_end
            FOREIGN KEY (id, version, status) REFERENCES charge_events (charge_id, seq, to_status)
            DEFERRABLE INITIALLY DEFERRED;

        -- Money that was received. A reference is unique, so nothing is captured twice.
        CREATE TABLE captures (
            id           uuid PRIMARY KEY,
            charge_id    uuid NOT NULL REFERENCES charges (id),
            provider     text NOT NULL CHECK (provider IN ('cash')),
            -- The provider's own id; for cash the charge: a driver confirms it once.
            provider_ref text NOT NULL CHECK (char_length(provider_ref) <= 100),
            amount_cents bigint NOT NULL CHECK (amount_cents > 0),
            captured_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
            confirmed_by uuid NOT NULL,
            CONSTRAINT one_capture_a_reference UNIQUE (provider, provider_ref)
        );
        CREATE INDEX captures_by_charge ON captures (charge_id);
        CREATE TRIGGER captures_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON captures
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_changes();

        -- A charge is paid if its captures add up to it, by the time of the commit.
        CREATE FUNCTION check_paid_charge() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.amount_cents IS DISTINCT FROM
                (SELECT coalesce(sum(amount_cents), 0) FROM captures WHERE charge_id = NEW.id)
            THEN
                RAISE EXCEPTION 'a charge is paid without its captures' USING
                    ERRCODE = 'check_violation', CONSTRAINT = 'paid_charges_are_captured';
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER paid_charges_are_captured AFTER INSERT OR UPDATE OF status ON charges
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status = 'PAID')
            EXECUTE FUNCTION check_paid_charge();

        -- A charge or a capture commits with its transfer; the argument is the transfer's kind.
        CREATE FUNCTION check_posted() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT EXISTS (SELECT FROM ledger_transfers WHERE kind = TG_ARGV[0] AND cause_id = NEW.id) THEN
                RAISE EXCEPTION '% has no transfer', TG_TABLE_NAME USING
                    ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER charges_are_posted AFTER INSERT ON charges
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.amount_cents > 0)
            EXECUTE FUNCTION check_posted('charge_opened');
        CREATE CONSTRAINT TRIGGER captures_are_posted AFTER INSERT ON captures
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_posted('cash_captured');

        -- A fare can be paid late.
        ALTER TABLE ride_events DROP CONSTRAINT only_allowed_moves;
        ALTER TABLE ride_events ADD CONSTRAINT only_allowed_moves CHECK (
            CASE WHEN seq = 1 THEN from_status IS NULL AND to_status = 'REQUESTED'
            ELSE coalesce(from_status || '>' || to_status, '') IN (
                'REQUESTED>SEARCHING', 'REQUESTED>OFFERED', 'REQUESTED>CANCELED', 'REQUESTED>EXPIRED',
                'SEARCHING>OFFERED', 'SEARCHING>CANCELED',
                'OFFERED>SEARCHING', 'OFFERED>ACCEPTED', 'OFFERED>CANCELED',
                'ACCEPTED>ARRIVING', 'ACCEPTED>SEARCHING', 'ACCEPTED>CANCELED',
                'ARRIVING>STARTED', 'ARRIVING>SEARCHING', 'ARRIVING>CANCELED',
                'STARTED>COMPLETED', 'STARTED>CANCELED',
                'COMPLETED>PAID', 'COMPLETED>PAYMENT_EXPIRED', 'PAYMENT_EXPIRED>PAID')
            END);
    """)
