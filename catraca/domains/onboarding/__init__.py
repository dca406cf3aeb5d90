"""Onboarding: sign-ups taken at any rate, and not one lost."""

from catraca.domains.onboarding.model import BadSignUp, FileKind, Seal, SignUp, encode_sign_up, read_sign_up
from catraca.domains.onboarding.service import (
    PERSONAL_DATA,
    ImportedSoFar,
    discard_sign_up,
    import_sign_ups,
    make_sign_up,
)
from catraca.domains.onboarding.store import INVARIANTS

__all__ = [
    "INVARIANTS",
    "PERSONAL_DATA",
    "BadSignUp",
    "FileKind",
    "ImportedSoFar",
    "Seal",
    "SignUp",
    "discard_sign_up",
    "encode_sign_up",
    "import_sign_ups",
    "make_sign_up",
    "read_sign_up",
]
