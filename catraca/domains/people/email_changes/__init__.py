"""E-mail changes: a new address counts when a code from its mailbox, or an operator, confirms it."""
