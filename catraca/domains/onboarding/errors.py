"""What onboarding refuses."""

from catraca.platform.errors import Refusal


class SignUpsUnavailable(Refusal):
    """The bus did not confirm. With the same `Idempotency-Key` a repeat is safe, whatever became of this."""

    code = "sign_ups_unavailable"
    status = 503
    retry_after_seconds = 5


class ImportHeadingMissing(Refusal):
    """A CSV file must say which column is the name and which the address."""

    code = "import_heading_missing"
    status = 422


class SignUpsFull(Refusal):
    """More wait than may wait; nothing was taken."""

    code = "sign_ups_full"
    status = 503
    retry_after_seconds = 30
