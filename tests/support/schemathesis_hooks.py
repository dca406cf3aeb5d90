"""Loaded by schemathesis itself."""

import os
import re
from typing import Any
from uuid import UUID, uuid4

import schemathesis

NAME = "Idempotency-Key"
# An existing user, so that generated requests about users also succeed.
KNOWN = os.environ.get("KNOWN_PERSON")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Replace valid idempotency keys by new ones, and valid user ids by a known user's. Invalid ones stay."""
    if case.headers and re.fullmatch("[!-~]{1,255}", str(case.headers.get(NAME, ""))):
        case.headers[NAME] = uuid4().hex
    for name in ("user_id", "driver_id"):
        if KNOWN and name in (case.path_parameters or {}) and _is_id(case.path_parameters[name]):
            case.path_parameters[name] = KNOWN


def _is_id(text: object) -> bool:
    try:
        return str(UUID(str(text))) == str(text)
    except ValueError:
        return False
