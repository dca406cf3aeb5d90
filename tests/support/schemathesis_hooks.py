"""Loaded by schemathesis itself."""

import re
from typing import Any
from uuid import uuid4

import schemathesis

NAME = "Idempotency-Key"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A key is for one intended change, so a sound one is a new one; unsound ones are sent as they are."""
    if case.headers and re.fullmatch("[!-~]{1,255}", str(case.headers.get(NAME, ""))):
        case.headers[NAME] = uuid4().hex
