from tests.domains.location.conftest import session_town, town
from tests.domains.matching.conftest import harness

__all__ = ["harness", "session_town", "town"]
