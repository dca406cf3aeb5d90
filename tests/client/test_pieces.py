"""Parts of the client that need no server."""

import pytest

from catraca.client import Client
from catraca.client.pauses import Pauses


async def test_invalid_url_is_refused_by_the_constructor() -> None:
    with pytest.raises(ValueError, match="http://"):
        Client("127.0.0.1:8000", token="t")


def test_pauses_grow_to_a_limit_with_jitter() -> None:
    pauses = Pauses()
    grown = [pauses.next_seconds() for _ in range(12)]
    assert max(grown) <= 5
    assert grown[-1] > 10 * grown[0]
    assert len(set(grown[-5:])) == 5
    assert 3 < pauses.next_seconds(at_least=3) <= 8
    pauses.reset()
    assert pauses.next_seconds() <= 0.1
