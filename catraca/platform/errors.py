"""Refusals: expected failures with a stable code, a status and data; the words live in `catraca/texts`."""

from typing import ClassVar


class Away(Exception):
    """A server beside the database does not answer right now: nobody's fault, so wait and try again."""


# What a problem says of itself; a refusal's data stands beside it.
MEMBERS = frozenset({"type", "title", "status", "code", "detail", "request_id"})


class Refusal(Exception):
    """A request or act turned down for a reason the caller can understand and act on."""

    code: ClassVar[str]
    status: ClassVar[int]
    retry_after_seconds: int | None = None

    def __init__(self, *, retry_after_seconds: int | None = None, **data: object) -> None:
        super().__init__(self.code)
        assert not MEMBERS & data.keys(), "what every problem says of itself is no refusal's data"
        self.data = data
        if retry_after_seconds is not None:
            self.retry_after_seconds = retry_after_seconds


def refusal_types() -> list[type[Refusal]]:
    """Every kind of refusal there is: what `texts` must have words for."""
    found: list[type[Refusal]] = []
    waiting = list(Refusal.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if hasattr(kind, "code"):
            found.append(kind)
    return sorted(found, key=lambda kind: kind.code)


class Unauthenticated(Refusal):
    code = "unauthenticated"
    status = 401


class TokenInvalid(Refusal):
    code = "token_invalid"
    status = 401


class TokenExpired(Refusal):
    code = "token_expired"
    status = 401


class TokenRevoked(Refusal):
    code = "token_revoked"
    status = 401


class Forbidden(Refusal):
    code = "forbidden"
    status = 403


class NotFound(Refusal):
    code = "not_found"
    status = 404


class MethodNotAllowed(Refusal):
    code = "method_not_allowed"
    status = 405


class RequestInvalid(Refusal):
    """The body, query or path does not have the shape the route takes; `errors` says where."""

    code = "request_invalid"
    status = 422


class BodyMalformed(Refusal):
    """Not JSON as we take it; `reason` (words in `texts`, table `reasons`) says what is wrong with it."""

    code = "body_malformed"
    status = 400


class BodyTooLarge(Refusal):
    code = "body_too_large"
    status = 413


class MediaTypeUnsupported(Refusal):
    code = "media_type_unsupported"
    status = 415


class UrlInvalid(Refusal):
    code = "url_invalid"
    status = 400


class RequestMalformed(Refusal):
    """Not HTTP as we take it: the connection is closed after the answer."""

    code = "request_malformed"
    status = 400


class UrlTooLong(Refusal):
    code = "url_too_long"
    status = 414


class HeadersTooLarge(Refusal):
    code = "headers_too_large"
    status = 431


class RequestTooSlow(Refusal):
    code = "request_too_slow"
    status = 408


class TooManyRequests(Refusal):
    code = "too_many_requests"
    status = 429


class AnswerTooSlow(Refusal):
    """The time for one request ran out while we worked; the outcome is unknown."""

    code = "answer_too_slow"
    status = 503
    retry_after_seconds = 2


class DatabaseUnavailable(Refusal):
    code = "database_unavailable"
    status = 503
    retry_after_seconds = 2


class IdentityProviderUnavailable(Refusal):
    """The provider's keys could not be fetched, so the token could not be checked."""

    code = "identity_provider_unavailable"
    status = 503
    retry_after_seconds = 5


class Busy(Refusal):
    """A bounded wait ran out: for a connection, a lock or a statement."""

    code = "busy"
    status = 503
    retry_after_seconds = 1


class OutcomeUnknown(Refusal):
    """The connection broke during COMMIT: the change may or may not have happened."""

    code = "outcome_unknown"
    status = 503
    retry_after_seconds = 1


class IdempotencyKeyInvalid(Refusal):
    code = "idempotency_key_invalid"
    status = 400


class IdempotencyKeyReused(Refusal):
    code = "idempotency_key_reused"
    status = 422


class IdempotencyKeyInUse(Refusal):
    code = "idempotency_key_in_use"
    status = 409
    retry_after_seconds = 1


class InternalError(Refusal):
    """What a caller is told when the code is wrong; the log has the rest under the request id."""

    code = "internal_error"
    status = 500
