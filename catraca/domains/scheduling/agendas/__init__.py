"""Workers and their hours: weekly rules, overrides, holidays."""
