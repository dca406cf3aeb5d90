"""What `catraca doctor` looks at, one file per thing it looks at."""
