"""How fast sign-ups become rows."""
