"""One file per kind of process, and what runs them; `ROLES` is the list of what Catraca does."""

from catraca.roles.api import Api
from catraca.roles.housekeeper import Housekeeper
from catraca.roles.runner import RoleType

ROLES: dict[str, RoleType] = {"api": Api, "housekeeper": Housekeeper}
