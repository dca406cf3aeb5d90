"""The exceptions of the client."""

from collections.abc import Mapping
from typing import Any


class ClientFailure(Exception):
    """Base of all exceptions of this package."""


class Refused(ClientFailure):
    """The server refused; a retry would be refused too. `code` is stable, for programs."""

    def __init__(self, status: int, code: str, detail: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code} ({status}): {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        # The other fields of the response, such as `ride_id`.
        self.data = dict(data or {})


class Unreachable(ClientFailure):
    """No response before the deadline; the cause is the last failure.

    A change may or may not have happened. A new call would be another change: read first.
    """


class LiveEnded(ClientFailure):
    """The server closed the socket for good, with this `code` and `reason`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the socket: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Gap(ClientFailure):
    """The server no longer has the messages that follow the last one received."""

    def __init__(self, *, after: int, found: int) -> None:
        super().__init__(f"messages after {after} were requested, the server continues after {found}")
        self.after = after
        self.found = found
