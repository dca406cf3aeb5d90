"""Export and erasure of personal data: clients, workers, and clients without an account."""
