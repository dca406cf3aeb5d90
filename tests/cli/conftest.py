from tests.domains.location.conftest import town, whole_town
from tests.domains.matching.conftest import office

__all__ = ["office", "town", "whole_town"]
