"""The role that answers HTTP requests."""

from catraca.roles.api.app import build_app, hub_of
from catraca.roles.api.domain_parts import PERSONAL_DATA
from catraca.roles.api.role import Api
from catraca.roles.api.routers import ROUTERS, STREAMS

__all__ = ["PERSONAL_DATA", "ROUTERS", "STREAMS", "Api", "build_app", "hub_of"]
