"""The audit log of events: what happened to what, and when; bodies stay where they are."""
