"""How many examples a property test tries."""

from hypothesis import settings


def examples(count: int) -> int:
    """So many in `make test-all`, and a part of them in `make test`; see the profiles in `conftest.py`."""
    return count * settings().max_examples // 100
