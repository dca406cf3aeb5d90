"""Money received on the co-operative's bank account, in parts, too much or twice."""

from catraca.platform.database.migrations import run_sql

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_sql("""
        ALTER TABLE ledger_accounts DROP CONSTRAINT ledger_accounts_kind_check;
        ALTER TABLE ledger_accounts ADD CONSTRAINT ledger_accounts_kind_check CHECK (
            kind IN ('receivable', 'unearned', 'commission', 'driver', 'bank', 'suspense'));
        ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_kind_check;
        ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_kind_check CHECK (
            kind IN ('charge_opened', 'cash_captured', 'bank_captured'));

        ALTER TABLE captures DROP CONSTRAINT captures_provider_check;
        ALTER TABLE captures ADD CONSTRAINT captures_provider_check CHECK (
            provider IN ('cash', 'pix_static'));
        -- What was received beyond the charge. Cash is counted by its driver and never more than that.
        ALTER TABLE captures ADD COLUMN excess_cents bigint NOT NULL DEFAULT 0;
        ALTER TABLE captures ADD CONSTRAINT excess_is_a_part_of_the_capture CHECK (
            excess_cents BETWEEN 0 AND CASE provider WHEN 'cash' THEN 0 ELSE amount_cents END);

        -- What was received of the charge. The last cent makes it paid, and nothing else does.
        ALTER TABLE charges ADD COLUMN paid_cents bigint NOT NULL DEFAULT 0;
        UPDATE charges SET paid_cents = amount_cents WHERE status = 'PAID';
        ALTER TABLE charges ADD CONSTRAINT no_charge_is_overpaid CHECK (
            paid_cents BETWEEN 0 AND amount_cents);
        ALTER TABLE charges ADD CONSTRAINT paid_charges_are_paid_in_full CHECK (
            (status = 'PAID') = (paid_cents = amount_cents));
        CREATE INDEX charges_by_status ON charges (status, id);

        ALTER TABLE charge_events DROP CONSTRAINT charge_events_actor_check;
        ALTER TABLE charge_events ADD CONSTRAINT charge_events_actor_check CHECK (
            actor IN ('driver', 'operator', 'system'));

        -- Checked at the commit, from both sides. The charge is locked, so that two captures that do not see
        -- each other cannot both pass.
        DROP TRIGGER paid_charges_are_captured ON charges;
        DROP FUNCTION check_paid_charge();
        CREATE FUNCTION check_paid_cents() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            checked uuid;
            paid bigint;
        BEGIN
            IF TG_TABLE_NAME = 'charges' THEN
                checked := NEW.id;
            ELSE
                checked := NEW.charge_id;
            END IF;
            SELECT paid_cents INTO paid FROM charges WHERE id = checked FOR NO KEY UPDATE;
            IF paid IS DISTINCT FROM (
                SELECT coalesce(sum(amount_cents - excess_cents), 0) FROM captures WHERE charge_id = checked)
            THEN
                RAISE EXCEPTION 'the captures of a charge do not add up to what was paid of it' USING
                    ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER payments_are_captured AFTER INSERT OR UPDATE OF paid_cents ON charges
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_paid_cents();
        CREATE CONSTRAINT TRIGGER captures_pay_their_charge AFTER INSERT ON captures
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_paid_cents();

        DROP TRIGGER captures_are_posted ON captures;
        CREATE CONSTRAINT TRIGGER captured_cash_is_posted AFTER INSERT ON captures
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.provider = 'cash')
            EXECUTE FUNCTION check_posted('cash_captured');
        CREATE CONSTRAINT TRIGGER captured_transfers_are_posted AFTER INSERT ON captures
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.provider <> 'cash')
            EXECUTE FUNCTION check_posted('bank_captured');
    """)
