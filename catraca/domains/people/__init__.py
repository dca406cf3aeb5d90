"""People: users and drivers, their credentials, and their personal data."""

from catraca.domains.people.accounts import store as _accounts
from catraca.domains.people.accounts.model import NewUser
from catraca.domains.people.accounts.service import (
    PERSONAL_DATA,
    PersonalData,
    add_first_users,
    add_users,
    ensure_user,
    standings_of,
)
from catraca.domains.people.credentials import store as _credentials
from catraca.domains.people.credentials.service import offer_first_password
from catraca.domains.people.drivers import store as _drivers
from catraca.domains.people.drivers.service import approved_drivers, may_drive
from catraca.domains.people.drivers.store import MAY_DRIVE
from catraca.domains.people.email_changes import store as _email_changes
from catraca.domains.people.model import User, UserId
from catraca.domains.people.second_factor import store as _second_factor
from catraca.domains.people.service import get_user, get_users, lock_users

INVARIANTS = (
    *_accounts.INVARIANTS,
    *_credentials.INVARIANTS,
    *_second_factor.INVARIANTS,
    *_email_changes.INVARIANTS,
    *_drivers.INVARIANTS,
)

__all__ = [
    "INVARIANTS",
    "MAY_DRIVE",
    "PERSONAL_DATA",
    "NewUser",
    "PersonalData",
    "User",
    "UserId",
    "add_first_users",
    "add_users",
    "approved_drivers",
    "ensure_user",
    "get_user",
    "get_users",
    "lock_users",
    "may_drive",
    "offer_first_password",
    "standings_of",
]
