"""Refusals: expected failures with a stable code, a status and data. Their texts are in `catraca/texts`."""

from collections.abc import Sequence
from typing import ClassVar


class Away(Exception):
    """A server other than the database does not answer. Retry later."""


# The members of every problem; a refusal's data must have other names.
MEMBERS = frozenset({"type", "title", "status", "code", "detail", "request_id"})


class Refusal(Exception):
    """A request that was refused for a reason on which the caller can act."""

    code: ClassVar[str]
    status: ClassVar[int]
    # The name of its text, where refusals with one code have different texts. None: the code.
    text: ClassVar[str | None] = None
    retry_after_seconds: int | None = None
    # The header WWW-Authenticate of a refusal with status 401.
    challenge: str = "Bearer"

    def __init__(self, *, retry_after_seconds: int | None = None, **data: object) -> None:
        super().__init__(self.code)
        assert not MEMBERS & data.keys(), "a refusal's data must not use the name of a problem's member"
        self.data = data
        if retry_after_seconds is not None:
            self.retry_after_seconds = retry_after_seconds

    @property
    def text_name(self) -> str:
        return f"refusals.{self.text or self.code}"


def refusal_types() -> list[type[Refusal]]:
    """Every type of refusal. `texts` must have a text for each."""
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


class SecondFactorRequired(Refusal):
    """The caller's role is granted only to tokens of a sign-in with a second factor."""

    code = "second_factor_required"
    status = 403


class FreshSignInRequired(Refusal):
    """The sign-in of the token is too long ago for this action. The challenge is that of RFC 9470."""

    code = "fresh_sign_in_required"
    status = 401

    def __init__(self, *, max_age_seconds: int) -> None:
        super().__init__(max_age_seconds=max_age_seconds)
        self.challenge = f'Bearer error="insufficient_user_authentication", max_age="{max_age_seconds}"'


class NotFound(Refusal):
    code = "not_found"
    status = 404


class MethodNotAllowed(Refusal):
    code = "method_not_allowed"
    status = 405

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        super().__init__()
        self.allowed = allowed


class RequestInvalid(Refusal):
    """The body, query or path does not match the route's schema; `errors` lists the fields."""

    code = "request_invalid"
    status = 422


class BodyMalformed(Refusal):
    """Not valid JSON, or JSON that we do not accept; `reason` is a code with a text in `texts`."""

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
    """Not valid HTTP, or HTTP that we do not accept. The connection is closed after the response."""

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


class TooManyAtOnce(Refusal):
    """This caller has too many requests under way and waiting."""

    code = "too_many_at_once"
    status = 429
    retry_after_seconds = 1


class TooManyConnections(Refusal):
    """This address has too many connections, all of them with a request. The connection is closed."""

    code = "too_many_connections"
    status = 429
    retry_after_seconds = 1


class AnswerTooSlow(Refusal):
    """The request reached its time limit; its outcome is unknown."""

    code = "answer_too_slow"
    status = 503
    retry_after_seconds = 2


class DatabaseUnavailable(Refusal):
    code = "database_unavailable"
    status = 503
    retry_after_seconds = 2


class IdentityProviderUnavailable(Refusal):
    """The provider's keys could not be downloaded, so the token could not be verified."""

    code = "identity_provider_unavailable"
    status = 503
    retry_after_seconds = 5


class Busy(Refusal):
    """A wait for a connection, a lock or a statement reached its limit."""

    code = "busy"
    status = 503
    retry_after_seconds = 1


class OutcomeUnknown(Refusal):
    """The connection broke during COMMIT: the change may or may not be committed."""

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
    """An unexpected error; the log has the details under the request id."""

    code = "internal_error"
    status = 500
