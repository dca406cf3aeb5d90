"""Messages that could not be handled, kept for a person to look at."""

from catraca.domains.dead_letters.jobs import prune_dead_letters
from catraca.domains.dead_letters.store import count_dead_letters

__all__ = ["count_dead_letters", "prune_dead_letters"]
