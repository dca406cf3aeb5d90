"""People: who they are, what they may do, and what is kept of them."""

from catraca.domains.people.model import (
    ApprovalRule,
    Driver,
    NewPerson,
    User,
    UserId,
    clean_email,
    fold_email,
)
from catraca.domains.people.service import (
    AUDIT_DATA,
    PERSONAL_DATA,
    PersonalData,
    add_first_people,
    ensure_user,
    get_user,
    get_users,
    may_drive,
    standing_of,
)
from catraca.domains.people.store import INVARIANTS

__all__ = [
    "AUDIT_DATA",
    "INVARIANTS",
    "PERSONAL_DATA",
    "ApprovalRule",
    "Driver",
    "NewPerson",
    "PersonalData",
    "User",
    "UserId",
    "add_first_people",
    "clean_email",
    "ensure_user",
    "fold_email",
    "get_user",
    "get_users",
    "may_drive",
    "standing_of",
]
