"""Export and erasure of the personal data in rides."""
