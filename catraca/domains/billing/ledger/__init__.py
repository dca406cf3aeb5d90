"""The ledger: accounts, transfers and postings. Rows are only added."""
