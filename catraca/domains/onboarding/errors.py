"""Refusals about sign-ups."""

from catraca.platform.errors import Refusal


class SignUpsUnavailable(Refusal):
    """The bus did not confirm. A repeat with the same `Idempotency-Key` is safe."""

    code = "sign_ups_unavailable"
    status = 503
    retry_after_seconds = 5


class ImportHeadingMissing(Refusal):
    """The first line of a CSV file must name the columns of name and e-mail."""

    code = "import_heading_missing"
    status = 422


class SignUpsFull(Refusal):
    """The queue is full; nothing was queued."""

    code = "sign_ups_full"
    status = 503
    retry_after_seconds = 30
