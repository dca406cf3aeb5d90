"""`catraca doctor`: one file for each part of the installation that it checks."""
