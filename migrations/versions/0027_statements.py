"""The statement of a person's account: each posting with the balance after it."""

from catraca.platform.database.migrations import run_sql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    run_sql("""
        -- The number of the account's last row in ledger_entries.
        ALTER TABLE ledger_accounts ADD COLUMN entries bigint NOT NULL DEFAULT 0 CHECK (entries >= 0);

        -- Each posting to a person's account, numbered in the order of their commits. Credits are above zero.
        CREATE TABLE ledger_entries (
            account_no    bigint NOT NULL REFERENCES ledger_accounts (no),
            n             bigint NOT NULL CHECK (n > 0),
            transfer_id   uuid NOT NULL,
            posting_n     integer NOT NULL,
            cents         bigint NOT NULL CHECK (cents <> 0),
            -- Above zero: the person is owed it.
            balance_cents bigint NOT NULL,
            before_n      bigint GENERATED ALWAYS AS (nullif(n - 1, 0)) STORED,
            before_cents  bigint GENERATED ALWAYS AS (balance_cents - cents) STORED,
            PRIMARY KEY (account_no, n),
            CONSTRAINT one_entry_a_posting_and_account UNIQUE (transfer_id, posting_n, account_no),
            CONSTRAINT entries_have_their_posting FOREIGN KEY (transfer_id, posting_n)
                REFERENCES ledger_postings (transfer_id, n),
            CONSTRAINT balances_of_entries UNIQUE (account_no, n, balance_cents),
            CONSTRAINT entries_continue_the_balance FOREIGN KEY (account_no, before_n, before_cents)
                REFERENCES ledger_entries (account_no, n, balance_cents),
            CONSTRAINT first_entries_begin_at_zero CHECK (n > 1 OR balance_cents = cents)
        );

        INSERT INTO ledger_entries (account_no, n, transfer_id, posting_n, cents, balance_cents)
        SELECT no, row_number() OVER account, transfer_id, n, cents, sum(cents) OVER account
        FROM (
            SELECT a.no, p.transfer_id, p.n,
                CASE a.no WHEN p.credit_no THEN p.cents ELSE -p.cents END AS cents
            FROM ledger_accounts a JOIN ledger_postings p ON a.no IN (p.debit_no, p.credit_no)
            WHERE a.owner_id IS NOT NULL) AS sides
        JOIN ledger_transfers t ON t.id = transfer_id
        WINDOW account AS (PARTITION BY no ORDER BY t.posted_at, transfer_id, n ROWS UNBOUNDED PRECEDING);
        UPDATE ledger_accounts a SET entries = (SELECT count(*) FROM ledger_entries WHERE account_no = a.no)
        WHERE owner_id IS NOT NULL;

        CREATE TRIGGER entries_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_changes();

        CREATE OR REPLACE FUNCTION add_postings_to_balances() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            -- Accounts are locked in the order of their numbers, so that two transfers cannot deadlock.
            PERFORM FROM ledger_accounts
            WHERE owner_id IS NOT NULL
              AND no IN (SELECT debit_no FROM added UNION ALL SELECT credit_no FROM added)
            ORDER BY no FOR NO KEY UPDATE;
            INSERT INTO ledger_entries (account_no, n, transfer_id, posting_n, cents, balance_cents)
            SELECT a.no, a.entries + row_number() OVER account, s.transfer_id, s.n, s.cents,
                a.credits_cents - a.debits_cents + sum(s.cents) OVER account
            FROM (SELECT debit_no AS no, transfer_id, n, -cents AS cents FROM added
                  UNION ALL SELECT credit_no, transfer_id, n, cents FROM added) AS s
            JOIN ledger_accounts a ON a.no = s.no AND a.owner_id IS NOT NULL
            WINDOW account AS (PARTITION BY a.no ORDER BY s.transfer_id, s.n ROWS UNBOUNDED PRECEDING);
            UPDATE ledger_accounts a SET debits_cents = a.debits_cents + s.debits,
                credits_cents = a.credits_cents + s.credits, entries = a.entries + s.entries
            FROM (
                SELECT no, sum(debit) AS debits, sum(credit) AS credits, count(*) AS entries
                FROM (SELECT debit_no AS no, cents AS debit, 0 AS credit FROM added
                      UNION ALL SELECT credit_no, 0, cents FROM added) AS sides
                GROUP BY no) AS s
            WHERE a.no = s.no AND a.owner_id IS NOT NULL;
            RETURN NULL;
        END $$;
    """)
