"""Dead letters: stored by a handler, counted, listed and read by operators."""
