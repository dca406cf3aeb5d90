from tests.domains.location.conftest import town, whole_town
from tests.domains.matching.conftest import harness

__all__ = ["harness", "town", "whole_town"]
