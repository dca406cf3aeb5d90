"""The roles of processes, one file each. `ROLES` lists all of them.

A role is imported when it is first made, so that a supervisor does not load what its workers run.
"""

from typing import TYPE_CHECKING

from catraca.roles.runner import Role, RoleType

if TYPE_CHECKING:
    from catraca.roles.parts import Parts


def _api(parts: "Parts") -> Role:
    from catraca.roles.api import Api

    return Api(parts)


def _housekeeper(parts: "Parts") -> Role:
    from catraca.roles.housekeeper import Housekeeper

    return Housekeeper(parts)


def _relay(parts: "Parts") -> Role:
    from catraca.roles.relay import Relay

    return Relay(parts)


def _dispatcher(parts: "Parts") -> Role:
    from catraca.roles.dispatcher import Dispatcher

    return Dispatcher(parts)


def _notifier(parts: "Parts") -> Role:
    from catraca.roles.notifier import Notifier

    return Notifier(parts)


def _ingester(parts: "Parts") -> Role:
    from catraca.roles.ingester import Ingester

    return Ingester(parts)


ROLES: dict[str, RoleType] = {
    "api": _api,
    "relay": _relay,
    "dispatcher": _dispatcher,
    "notifier": _notifier,
    "ingester": _ingester,
    "housekeeper": _housekeeper,
}
