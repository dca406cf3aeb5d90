"""Setting up: workers with their hours, services and rooms."""
