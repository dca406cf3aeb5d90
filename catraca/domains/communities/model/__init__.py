"""Communities as values: what each is, where its fence runs, and what is wrong with a fence that is none."""
