"""How long to wait before the next try."""

import random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0
GROWTH = 2.0


class Pauses:
    """Growing with each try, and spread by chance: a thousand clients must not come back as one."""

    def __init__(self) -> None:
        self._next_seconds = FIRST_SECONDS

    def next_seconds(self, *, at_least: float = 0.0) -> float:
        """The next pause; `at_least` is what the server asked for, on which the spread comes on top."""
        longest, self._next_seconds = (
            self._next_seconds,
            min(self._next_seconds * GROWTH, LONGEST_SECONDS),
        )
        return at_least + longest * random.uniform(0.5, 1)  # noqa: S311 - spread, not secret

    def reset(self) -> None:
        """All is well again: the next trouble begins anew."""
        self._next_seconds = FIRST_SECONDS
