"""Every planted bug is found; a bug that is not found shows a missing test."""

import pytest

from catraca.domains.matching.search import model
from tests.domains.matching.harness import MatchingHarness
from tests.domains.matching.planted_bugs import CORE_BUGS, SERVICE_BUGS, CoreBug, ServiceBug, storm

pytestmark = pytest.mark.long


@pytest.mark.parametrize("bug", CORE_BUGS, ids=lambda bug: bug.name)
def test_bug_in_the_model_is_found(bug: CoreBug) -> None:
    if bug.found_by is not storm:  # the storm runs in test_properties.py, and for longer
        bug.found_by(model)
    core = bug.core()
    with pytest.raises(AssertionError):
        bug.found_by(core)


# Bug and check are the same on both stacks.
@pytest.mark.parametrize("stack", ["embedded"], indirect=True)
@pytest.mark.parametrize("bug", SERVICE_BUGS, ids=lambda bug: bug.name)
@pytest.mark.parametrize("is_planted", [False, True], ids=["as it is", "planted"])
async def test_bug_in_a_service_is_found(
    harness: MatchingHarness, bug: ServiceBug, is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_planted:
        await bug.found_by(harness)
        return
    bug.plant(monkeypatch)
    harness.use_rules(harness.rules)
    with pytest.raises(AssertionError):
        await bug.found_by(harness)
