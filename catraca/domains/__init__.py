"""The domains of the business, one folder each. A domain is imported by its package name only."""
