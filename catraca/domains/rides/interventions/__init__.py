"""Interventions: an operator ends a ride that its parties do not end."""
