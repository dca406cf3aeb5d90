"""Sign-ups: the queue they pass through, their limits, and the welcome mail."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from catraca.settings.values import Group, Rate, also_without_prefix, is_loopback, with_scheme


class OnboardingSettings(Group):
    retry_ttl_ms: int = Field(
        default=10_000,
        ge=1,
        le=86_400_000,
        validation_alias=also_without_prefix("RETRY_TTL_MS"),
        description="Milliseconds between two attempts to handle a sign-up.",
    )
    max_retries: int = Field(
        default=3,
        ge=0,
        le=100,
        validation_alias=also_without_prefix("MAX_RETRIES"),
        description="Number of retries of a sign-up before it becomes a dead letter.",
    )
    users_batch_size: int = Field(
        default=1000,
        ge=1,
        le=5000,
        validation_alias=also_without_prefix("USERS_BATCH_SIZE"),
        description="Largest number of sign-ups written in one transaction.",
    )
    users_batch_timeout_ms: int = Field(
        default=1000,
        ge=1,
        le=60_000,
        validation_alias=also_without_prefix("USERS_BATCH_TIMEOUT_MS"),
        description="Milliseconds to wait for a full batch of sign-ups.",
    )
    users_proc_concurrency: int = Field(
        default=8,
        ge=1,
        le=100,
        validation_alias=also_without_prefix("USERS_PROC_CONCURRENCY"),
        description="Number of tasks in one process that read and check sign-ups.",
    )
    users_batch_concurrency: int = Field(
        default=2,
        ge=1,
        le=20,
        validation_alias=also_without_prefix("USERS_BATCH_CONCURRENCY"),
        description="Number of batches of sign-ups that one process writes at a time.",
    )
    rate_limit_sign_up_address: Rate = Field(
        default="30/minute", description="Sign-ups from one network address."
    )
    rate_limit_sign_up_email: Rate = Field(
        default="20/hour", description="Sign-ups for one e-mail address, repeats included."
    )
    mail_url: Annotated[str, with_scheme("smtp", "smtps")] | None = Field(
        default=None, repr=False, description="Mail server, as smtp://user:password@host:587; unset: no mail."
    )
    mail_tls: Literal["required", "optional"] = Field(
        default="required",
        description="`optional`: mail is sent without encryption to a server that offers none, if the address"
        " has no password; a loopback address is always so.",
    )
    mail_from: str = Field(default="catraca@localhost", description="Sender of the mail.")
    password_page_url: Annotated[str, with_scheme("https", "http")] | None = Field(
        default=None,
        description="Your page for setting a password; welcome mail links to it with `#token=`.",
    )

    @model_validator(mode="after")
    def _mail_needs_a_page(self) -> Self:
        if self.mail_url is not None and self.password_page_url is None:
            raise ValueError("CATRACA_MAIL_URL needs CATRACA_PASSWORD_PAGE_URL, the page its mail links to")
        return self

    def needs_tls(self) -> bool:
        """True if mail must not be sent without encryption."""
        host = urlsplit(self.mail_url or "").hostname or "localhost"
        return self.mail_tls == "required" and not is_loopback(host)
