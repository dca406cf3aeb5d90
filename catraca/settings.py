"""Every knob, typed. Only roles and the command line read them; all start with `CATRACA_`."""

import os
import secrets
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from catraca.platform.http.rate_limits import RateLimit

MIN_SECRET_CHARACTERS = 32


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="CATRACA_", extra="ignore", frozen=True)

    environment: Literal["development", "production"] = Field(
        default="development", description="`production` refuses defaults that are only fit for a try-out."
    )
    host: str = Field(default="127.0.0.1", description="The address the API listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="The port the API listens on.")
    workers: int = Field(default=1, ge=1, le=64, description="How many processes run the chosen roles.")
    state_dir: Path = Field(
        default=Path("var"), description="Where embedded servers and generated secrets live."
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    database_url: str | None = Field(default=None, description="PostgreSQL >= 15; unset: the embedded one.")
    redis_url: str | None = Field(default=None, description="Redis >= 6.2; unset: the embedded one.")
    amqp_url: str | None = Field(default=None, description="RabbitMQ >= 3.10; unset: the bus in PostgreSQL.")
    database_connections: int = Field(default=10, ge=1, le=500, description="Pool size of each process.")

    secret: str | None = Field(
        default=None, description="Signs tokens; unset: generated once into the state folder."
    )
    jwks_url: str | None = Field(
        default=None, description="Keys of an identity provider, instead of our own secret."
    )
    jwt_issuer: str = "catraca"
    jwt_audience: str = "catraca"
    jwt_roles_claim: str = Field(default="roles", description="Where the token lists roles; dots go deeper.")
    token_ttl: timedelta = Field(
        default=timedelta(hours=1), description="Lifetime of tokens from a password login."
    )
    driver_approval: Literal["automatic", "required"] = Field(
        default="automatic", description="Whether an operator must approve a driver before the first ride."
    )

    rate_limit_principal: str = "1200/minute"
    rate_limit_anonymous: str = "120/minute"
    max_body_bytes: int = Field(default=64 * 1024, ge=1024)
    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        default_factory=list[str], description="Addresses or networks whose X-Forwarded-For is believed."
    )
    cors_origins: Annotated[list[str], NoDecode] = Field(default_factory=list[str])
    metrics_public: bool = Field(
        default=True, description="Whether /metrics answers without an operator's token."
    )
    idempotency_retention: timedelta = timedelta(hours=24)

    @field_validator("trusted_proxies", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        )

    @field_validator("rate_limit_principal", "rate_limit_anonymous")
    @classmethod
    def _is_rate(cls, value: str) -> str:
        RateLimit.parse(value)
        return value

    def signing_secret(self) -> str:
        """The secret given, or the state folder's own, made on first use."""
        return self.secret or _generated_secret(self.state_dir / "secret")


def _generated_secret(path: Path) -> str:
    """Written whole, then linked: a crash leaves no half secret and a race no second one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # made with mode 0600
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(file.name, path)
    return path.read_text().strip()
