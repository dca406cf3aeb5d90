"""Dead letters: messages that could not be handled; operators read, edit, replay or discard them."""

from catraca.domains.dead_letters.letters.model import Filter, LetterId, OpenLetter
from catraca.domains.dead_letters.letters.service import (
    PERSONAL_DATA,
    find_groups,
    find_letters,
    open_letter,
)
from catraca.domains.dead_letters.replay.service import (
    ReplayTarget,
    ReplayTargets,
    discard_letter,
    discard_letters,
    edit_letter,
    replay_letter,
    replay_letters,
)

__all__ = [
    "PERSONAL_DATA",
    "Filter",
    "LetterId",
    "OpenLetter",
    "ReplayTarget",
    "ReplayTargets",
    "discard_letter",
    "discard_letters",
    "edit_letter",
    "find_groups",
    "find_letters",
    "open_letter",
    "replay_letter",
    "replay_letters",
]
