"""Rules of the suite itself."""

import os

import pytest


@pytest.mark.xdist_group("a group")
def test_groups_of_tests_stay_together(request: pytest.FixtureRequest) -> None:
    """See `pytest_collection_modifyitems` in conftest.py."""
    assert request.node.nodeid.endswith("@a group") == ("PYTEST_XDIST_WORKER" in os.environ)
