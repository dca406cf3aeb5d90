"""Every knob, typed. Only roles and the command line read them; all start with `CATRACA_`."""

import os
import re
import secrets
from contextlib import suppress
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from catraca.platform.auth import TokenRules
from catraca.platform.http.rate_limits import RateLimit
from catraca.platform.web_push import PUSH_SERVICES

MIN_SECRET_CHARACTERS = 32
MIN_SECRET_VARIETY = 8
# Whoever copies an example must not go into production with it.
PLACEHOLDERS = ("change-me", "changeme", "change_me", "replace-me", "placeholder", "example", "your-secret")
SECRET_REMEDY = "Give every process the same CATRACA_SECRET, as from `openssl rand -base64 48`."  # noqa: S105
DURATION_SHAPE = re.compile(r"\s*([0-9]{1,9})\s*([smhd]?)\s*")
FRACTION_SHAPE = re.compile(r"\s*[0-9]{1,6}\.[0-9]{1,6}\s*")
DURATION_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class UnfitForProduction(Exception):
    """A setting is only fit for a try-out; the message names the way out."""


def _with_scheme(*schemes: str) -> AfterValidator:
    def check(value: str) -> str:
        if not value.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            # Without the value: addresses hold passwords.
            raise ValueError(f"an address here begins with {schemes[0]}://")
        return value

    return AfterValidator(check)


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = DURATION_SHAPE.fullmatch(value)
    if match is None:
        raise ValueError('a duration is seconds, as in "3600", or "15m", "1h", "7d"')
    return timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})


def _seconds(value: object) -> object:
    """A duration, or seconds with a fraction."""
    if isinstance(value, str) and FRACTION_SHAPE.fullmatch(value):
        return timedelta(seconds=float(value))
    return _duration(value)


def _also_bare(name: str) -> AliasChoices:
    """The usual name first: whoever sets both means that one."""
    return AliasChoices(f"CATRACA_{name}", name)


def _rate(value: str) -> str:
    RateLimit.parse(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration), Field(gt=timedelta(0), le=timedelta(days=3650))]
Seconds = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0), le=timedelta(days=1))]
Rate = Annotated[str, AfterValidator(_rate)]


# What a lock outlives its offer by, so that no clock and no delay turns that round.
LEASE_GRACE = timedelta(seconds=5)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="CATRACA_", env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True
    )

    environment: Literal["development", "production"] = Field(
        default="development", description="`production` refuses defaults that are only fit for a try-out."
    )
    host: str = Field(default="127.0.0.1", description="The address the API listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="The port the API listens on.")
    workers: int = Field(default=1, ge=1, le=64, description="How many processes run the chosen roles.")
    state_dir: Path = Field(
        default=Path("var"), description="Where embedded servers and generated secrets live."
    )
    drain_delay: float = Field(
        default=0,
        ge=0,
        le=60,
        description="Seconds between 'not ready' and closing the port, for load balancers to notice.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # What may hold a password stays out of every representation.
    database_url: Annotated[str, _with_scheme("postgresql", "postgres")] | None = Field(
        default=None, repr=False, description="PostgreSQL >= 15; unset: the embedded one."
    )
    redis_url: Annotated[str, _with_scheme("redis", "rediss", "unix")] | None = Field(
        default=None, repr=False, description="Redis >= 6.2; unset: the embedded one."
    )
    redis_timeout: float = Field(
        default=0.25,
        ge=0.05,
        le=10,
        description="Seconds a call to Redis may take; then it counts as away and is done without.",
    )
    amqp_url: Annotated[str, _with_scheme("amqp", "amqps")] | None = Field(
        default=None, repr=False, description="RabbitMQ >= 3.10; unset: the bus in PostgreSQL."
    )
    database_connections: int = Field(default=10, ge=1, le=500, description="Pool size of each process.")

    secret: str | None = Field(
        default=None, repr=False, description="Signs tokens; unset: generated once into the state folder."
    )
    jwks_url: Annotated[str, _with_scheme("https", "http")] | None = Field(
        default=None, description="Keys of an identity provider, instead of our own secret."
    )
    jwt_issuer: str = "catraca"
    jwt_audience: str = "catraca"
    jwt_roles_claim: str = Field(default="roles", description="Where the token lists roles; dots go deeper.")
    token_ttl: Duration = Field(
        default=timedelta(hours=1), description="Lifetime of tokens from a password login."
    )
    driver_approval: Literal["automatic", "required"] = Field(
        default="automatic", description="Whether an operator must approve a driver before the first ride."
    )

    password_link_ttl: Duration = Field(
        default=timedelta(hours=24), description="How long a one-use password link may wait."
    )

    rate_limit_principal: Rate = "1200/minute"
    rate_limit_anonymous: Rate = "120/minute"
    rate_limit_sign_in_account: Rate = Field(
        default="10/minute", description="Password logins tried for one e-mail address."
    )
    rate_limit_sign_in_address: Rate = Field(
        default="30/minute", description="Password logins tried from one network address."
    )
    max_body_bytes: int = Field(default=64 * 1024, ge=1024)
    trusted_proxies: Annotated[list[IPv4Network | IPv6Network], NoDecode] = Field(
        default_factory=list[IPv4Network | IPv6Network],
        description="Addresses or networks whose X-Forwarded-For is believed.",
    )
    cors_origins: Annotated[list[str], NoDecode] = Field(default_factory=list[str])
    metrics_public: bool = Field(
        default=True, description="Whether /metrics answers without an operator's token."
    )
    idempotency_retention: Duration = timedelta(hours=24)
    outbox_retention: Annotated[Duration, Field(ge=timedelta(days=1))] = Field(
        default=timedelta(days=7), description="How long events that were sent are kept, to be compared."
    )
    dead_letter_retention: Duration = Field(
        default=timedelta(days=30),
        description="How long messages that could not be handled wait for a person.",
    )
    push_contact: str | None = Field(
        default=None,
        pattern="^(mailto:|https:).+",
        description="Whom push services write to about us, mailto: or https:; without it no web push.",
    )
    push_hosts: Annotated[list[str], NoDecode] = Field(
        default_factory=lambda: list(PUSH_SERVICES),
        description="Which push services devices may name.",
    )
    notification_retention: Annotated[Duration, Field(ge=timedelta(days=1))] = Field(
        default=timedelta(days=30),
        description="How long what people were told can be read; a device away for longer misses some.",
    )
    search_retention: Annotated[Duration, Field(ge=timedelta(days=1))] = Field(
        default=timedelta(days=30), description="How long it is kept whom searches for drivers saw."
    )

    # Rides.
    driver_response_timeout: Seconds = Field(
        default=timedelta(seconds=20), description="How long a driver may think about an offer."
    )
    global_matching_timeout: Seconds = Field(
        default=timedelta(minutes=5), description="How long a driver is looked for."
    )
    max_attempts_per_search: int = Field(
        default=10, ge=1, le=1000, description="How many drivers are asked before a further search."
    )
    search_retry_interval: Seconds = Field(
        default=timedelta(seconds=30), description="Between two searches that find nobody."
    )
    initial_search_radius: int = Field(
        default=5000, ge=1, le=500_000, description="Metres; how far out the first search looks."
    )
    max_search_radius: int = Field(default=15_000, ge=1, le=500_000, description="Metres; and the furthest.")
    radius_increment: int = Field(
        default=2500, ge=0, le=500_000, description="Metres; how much further each search looks."
    )
    offers_at_once: int = Field(
        default=1,
        ge=0,
        le=100,
        description="How many drivers are asked for one ride at a time; 0: operators offer rides by hand.",
    )
    failure_alert_percent: float = Field(
        default=10, ge=0, le=100, description="Beyond it, a region where searches fail is told of."
    )
    failure_alert_window: Duration = Field(
        default=timedelta(hours=1), description="The time of which the searches are counted for that."
    )
    failure_alert_minimum: int = Field(
        default=10, ge=1, le=1_000_000, description="How many searches must have ended there for that."
    )
    enable_geofence: bool = Field(
        default=True,
        validation_alias=_also_bare("ENABLE_GEOFENCE"),
        description="Whether rides of type `comunidade` look for the community's own drivers first.",
    )
    confirmation_ttl: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = Field(
        default=timedelta(minutes=5),
        description="How long a passenger may think about drivers from elsewhere.",
    )
    rate_limit_confirmation: Rate = Field(
        default="10/minute", description="How many wrong confirmation tokens one person may send."
    )
    tariff_base_cents: int = Field(default=500, ge=0, le=1_000_000, description="What every ride costs.")
    tariff_per_km_cents: int = Field(default=180, ge=0, le=1_000_000)
    tariff_per_minute_cents: int = Field(default=30, ge=0, le=1_000_000)
    tariff_minimum_cents: int = Field(default=800, ge=0, le=10_000_000)
    currency: str = Field(
        default="BRL", pattern="^[A-Z]{3}$", description="ISO 4217; fares are in its cents."
    )

    # Where drivers are.
    presence_timeout: Seconds = Field(
        default=timedelta(minutes=1), description="How long a driver may be silent before going offline."
    )
    idle_after: Seconds = Field(
        default=timedelta(minutes=5), description="How long a driver is free before being told of as idle."
    )
    position_interval: Seconds = Field(
        default=timedelta(seconds=10), description="Between two positions of one driver in PostgreSQL."
    )
    ping_max_speed: float = Field(
        default=70, gt=0, le=1000, description="Metres a second; whoever seems faster did not move so."
    )
    ping_max_accuracy: float = Field(
        default=200, gt=0, le=100_000, description="Metres; a less precise ping does not move a driver."
    )
    community_edge_pings: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How many clear sightings in a row beyond a fence's edge make a crossing.",
    )
    community_edge_dwell: Seconds = Field(
        default=timedelta(seconds=30), description="Or how long there are clear sightings there."
    )
    lock_ttl: Annotated[Seconds, Field(ge=timedelta(seconds=1), le=timedelta(hours=1))] = Field(
        default=timedelta(seconds=15), description="How long a driver is locked unless it is said."
    )

    mail_url: Annotated[str, _with_scheme("smtp", "smtps")] | None = Field(
        default=None, repr=False, description="Mail server, as smtp://user:password@host:587; unset: no mail."
    )
    mail_from: str = Field(default="catraca@localhost", description="Whom letters come from.")
    password_page_url: Annotated[str, _with_scheme("https", "http")] | None = Field(
        default=None,
        description="Your page for setting a password; welcome letters link to it with `#token=`.",
    )

    # Sign-ups, under the names they have always had: each is also read without the prefix.
    retry_ttl_ms: int = Field(
        default=10_000,
        ge=1,
        le=86_400_000,
        validation_alias=_also_bare("RETRY_TTL_MS"),
        description="Milliseconds that a sign-up which failed waits for another try.",
    )
    max_retries: int = Field(
        default=3,
        ge=0,
        le=100,
        validation_alias=_also_bare("MAX_RETRIES"),
        description="How often a sign-up is tried again before it is a dead letter.",
    )
    users_batch_size: int = Field(
        default=1000,
        ge=1,
        le=5000,
        validation_alias=_also_bare("USERS_BATCH_SIZE"),
        description="How many sign-ups are written at once.",
    )
    users_batch_timeout_ms: int = Field(
        default=1000,
        ge=1,
        le=60_000,
        validation_alias=_also_bare("USERS_BATCH_TIMEOUT_MS"),
        description="Milliseconds that a batch of sign-ups may wait to be full.",
    )
    users_proc_concurrency: int = Field(
        default=8,
        ge=1,
        le=100,
        validation_alias=_also_bare("USERS_PROC_CONCURRENCY"),
        description="How many tasks of one process read and check sign-ups.",
    )
    users_batch_concurrency: int = Field(
        default=2,
        ge=1,
        le=20,
        validation_alias=_also_bare("USERS_BATCH_CONCURRENCY"),
        description="How many batches of sign-ups one process writes at a time.",
    )
    hold_ttl: Duration = Field(
        default=timedelta(minutes=5),
        description="How long a time is held for a client who has not booked it yet.",
    )
    max_holds: int = Field(default=3, ge=1, le=100, description="How many times one client may hold at once.")
    waitlist_offer_ttl: Duration = Field(
        default=timedelta(minutes=15),
        description="How long a time that became free is kept for whoever has waited the longest for it.",
    )
    appointment_reminder: Duration = Field(
        default=timedelta(hours=24), description="How long before an appointment its parties are reminded."
    )
    walk_in_retention: Annotated[Duration, Field(ge=timedelta(days=1))] = Field(
        default=timedelta(days=365),
        description="How long it is kept who came without an account, and how to reach them.",
    )

    rate_limit_sign_up_address: Rate = Field(
        default="30/minute", description="Sign-ups from one network address."
    )
    rate_limit_sign_up_email: Rate = Field(
        default="20/hour", description="Sign-ups for one e-mail address, repeats included."
    )

    @field_validator("trusted_proxies", "cors_origins", "push_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return (
            [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        )

    @model_validator(mode="after")
    def _letters_lead_somewhere(self) -> Self:
        if self.mail_url is not None and self.password_page_url is None:
            raise ValueError("CATRACA_MAIL_URL needs CATRACA_PASSWORD_PAGE_URL, where its letters lead")
        return self

    @model_validator(mode="after")
    def _searches_can_be_made(self) -> Self:
        if self.initial_search_radius > self.max_search_radius:
            raise ValueError("CATRACA_INITIAL_SEARCH_RADIUS is larger than CATRACA_MAX_SEARCH_RADIUS")
        if self.driver_response_timeout > self.global_matching_timeout:
            raise ValueError("CATRACA_DRIVER_RESPONSE_TIMEOUT is longer than CATRACA_GLOBAL_MATCHING_TIMEOUT")
        return self

    @property
    def offer_lease(self) -> timedelta:
        """A driver is locked for longer than an offer lives, however short `lock_ttl` is."""
        return max(self.lock_ttl, self.driver_response_timeout + LEASE_GRACE)

    @property
    def inbox_retention(self) -> timedelta:
        """Beyond the dead letters' own: a replay of the last of them is still known if it was applied."""
        return self.dead_letter_retention + timedelta(days=1)

    def secret_fault(self) -> str | None:
        """Why the secret is not fit for production; None when it is."""
        if self.secret is None:
            # Over a network, other machines may serve the same database, each with a secret of its own.
            remote = self.database_url is not None and _is_over_network(self.database_url)
            return "unset, while the database is a server of its own" if remote else None
        if len(self.secret) < MIN_SECRET_CHARACTERS:
            return f"shorter than {MIN_SECRET_CHARACTERS} characters"
        if any(word in self.secret.lower() for word in PLACEHOLDERS):
            return "an example's, which anybody can read"
        return "easy to guess" if len(set(self.secret)) < MIN_SECRET_VARIETY else None

    def ensure_fit(self) -> None:
        """Refuse to serve in production with what is only fit for a try-out."""
        fault = self.secret_fault()
        if self.environment == "production" and fault is not None:
            raise UnfitForProduction(f"CATRACA_SECRET is {fault}. {SECRET_REMEDY}")

    def token_rules(self) -> TokenRules:
        """What tokens must say, and where, to count here."""
        return TokenRules(
            issuer=self.jwt_issuer, audience=self.jwt_audience, roles_claim=self.jwt_roles_claim
        )

    def signing_secret(self) -> str:
        """The secret given, or the state folder's own, made on first use."""
        return self.secret or _generated_secret(self.state_dir / "secret")


def _is_over_network(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    host = unquote(parts.hostname or parse_qs(parts.query).get("host", [""])[0])
    return host != "" and not host.startswith("/")


def _generated_secret(path: Path) -> str:
    """Written whole, then linked: a crash leaves no half secret and a race no second one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # made with mode 0600
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:  # root may pass by once; the folder's owner must be able to read it
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            with suppress(FileExistsError):
                os.link(file.name, path)
    return path.read_text().strip()
