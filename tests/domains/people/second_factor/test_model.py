"""Codes of an authenticator app."""

import base64
from datetime import UTC, datetime

import pytest

from catraca.domains.people.second_factor.model import matching_step
from tests.domains.people.authenticator import code_of


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")],
)
def test_codes_are_those_of_the_standard(seconds: int, code: str) -> None:
    """The test vectors of RFC 6238, appendix B, with six digits."""
    secret = b"12345678901234567890"
    at = datetime.fromtimestamp(seconds, UTC)
    assert matching_step(secret, code, at=at) == seconds // 30
    assert code_of(base64.b32encode(secret).decode(), seconds // 30) == code


def test_codes_of_neighbouring_steps_match_only() -> None:
    secret, at = b"12345678901234567890", datetime.fromtimestamp(1_800_000_000, UTC)
    text, step = base64.b32encode(secret).decode(), 1_800_000_000 // 30
    matches = [matching_step(secret, code_of(text, step + away), at=at) for away in (-2, -1, 0, 1, 2)]
    assert matches == [None, step - 1, step, step + 1, None]
