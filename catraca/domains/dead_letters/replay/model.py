"""Replays and discards as values: their limits and outcome."""

from dataclasses import dataclass

REASON_MAX_CHARACTERS = 300
# One line with at least one visible character.
REASON_PATTERN = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
BODY_MAX_BYTES = 1024 * 1024
BULK_MAX_LETTERS = 10_000
RATE_MAX_PER_SECOND = 1000
RATE_DEFAULT_PER_SECOND = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an operation on all letters of a filter; in a dry run the expected result.

    `refused` letters cannot be replayed as they are. `left` letters are over the limit, or were locked by
    another transaction.
    """

    dry_run: bool
    matched: int
    done: int
    refused: int = 0
    left: int = 0
    seconds: float = 0
