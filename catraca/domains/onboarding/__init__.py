"""Onboarding: sign-ups are queued at once and written in batches; none is lost."""

from catraca.domains.onboarding.model import BadSignUp, Seal, read_sign_up
from catraca.domains.onboarding.service import (
    PERSONAL_DATA,
    ImportProgress,
    discard_sign_up,
    import_sign_ups,
)
from catraca.domains.onboarding.store import INVARIANTS

__all__ = [
    "INVARIANTS",
    "PERSONAL_DATA",
    "BadSignUp",
    "ImportProgress",
    "Seal",
    "discard_sign_up",
    "import_sign_ups",
    "read_sign_up",
]
