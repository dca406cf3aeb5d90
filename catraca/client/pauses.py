"""The pause before a retry."""

import random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
GROWTH = 2.0


class Pauses:
    """Exponential backoff with jitter, so that many clients do not retry at the same moment."""

    def __init__(self) -> None:
        self._next_seconds = FIRST_SECONDS

    def next_seconds(self, *, at_least: float = 0.0) -> float:
        """The next pause; `at_least` is the server's Retry-After, to which the jitter is added."""
        longest, self._next_seconds = (
            self._next_seconds,
            min(self._next_seconds * GROWTH, LONGEST_SECONDS),
        )
        return at_least + longest * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret

    def reset(self) -> None:
        """Start again from the shortest pause."""
        self._next_seconds = FIRST_SECONDS
