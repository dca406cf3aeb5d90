"""The whole ledger as text for other programs: CSV, and Beancount."""
