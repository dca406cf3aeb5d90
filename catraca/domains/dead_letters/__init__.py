"""Messages that could not be handled: kept for a person to look at, mend, replay or discard."""

from catraca.domains.dead_letters.jobs import prune_dead_letters
from catraca.domains.dead_letters.model import (
    Filter,
    Group,
    Letter,
    LetterId,
    ListedLetter,
    OpenLetter,
    Outcome,
)
from catraca.domains.dead_letters.service import (
    PERSONAL_DATA,
    Duties,
    QueueDuty,
    discard_letter,
    discard_letters,
    edit_letter,
    find_groups,
    find_letters,
    open_letter,
    replay_letter,
    replay_letters,
)
from catraca.domains.dead_letters.store import count_dead_letters

__all__ = [
    "PERSONAL_DATA",
    "Duties",
    "Filter",
    "Group",
    "Letter",
    "LetterId",
    "ListedLetter",
    "OpenLetter",
    "Outcome",
    "QueueDuty",
    "count_dead_letters",
    "discard_letter",
    "discard_letters",
    "edit_letter",
    "find_groups",
    "find_letters",
    "open_letter",
    "prune_dead_letters",
    "replay_letter",
    "replay_letters",
]
