"""The rate at which sign-ups become rows."""
