"""What a call may come to beside its result."""

from collections.abc import Mapping
from typing import Any


class ClientFailure(Exception):
    """Everything this package raises of itself."""


class Refused(ClientFailure):
    """The server understood and said no; the same again would hear the same. `code` is for programs."""

    def __init__(self, status: int, code: str, detail: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code} ({status}): {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        # Everything else the answer said, such as `ride_id`.
        self.data = dict(data or {})


class Unreachable(ClientFailure):
    """No answer that counts within the time there was; the cause is the last failure.

    Whether a change happened is not known then. Calling again would be another change: read first.
    """


class LiveEnded(ClientFailure):
    """The server closed the socket and does not want another; `code` and `reason` are its own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the socket: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Gap(ClientFailure):
    """The server does not have what follows the last number it sent, however often it is asked."""

    def __init__(self, *, after: int, found: int) -> None:
        super().__init__(f"what follows {after} was asked for, and what follows {found} was offered")
        self.after = after
        self.found = found
