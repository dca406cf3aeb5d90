"""People: who they are, what they may do, and what is kept of them."""

from catraca.domains.people.model import (
    ApprovalRule,
    Driver,
    Malformed,
    NewPerson,
    User,
    UserId,
    clean_email,
    clean_name,
    fold_email,
)
from catraca.domains.people.schemas import Body, Email, Name
from catraca.domains.people.service import (
    AUDIT_DATA,
    PERSONAL_DATA,
    PersonalData,
    add_first_people,
    add_people,
    ensure_user,
    get_user,
    get_users,
    may_drive,
    offer_first_password,
    standing_of,
)
from catraca.domains.people.store import INVARIANTS

__all__ = [
    "AUDIT_DATA",
    "INVARIANTS",
    "PERSONAL_DATA",
    "ApprovalRule",
    "Body",
    "Driver",
    "Email",
    "Malformed",
    "Name",
    "NewPerson",
    "PersonalData",
    "User",
    "UserId",
    "add_first_people",
    "add_people",
    "clean_email",
    "clean_name",
    "ensure_user",
    "fold_email",
    "get_user",
    "get_users",
    "may_drive",
    "offer_first_password",
    "standing_of",
]
