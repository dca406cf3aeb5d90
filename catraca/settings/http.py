"""The HTTP server: limits, proxies, origins."""

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from pydantic import Field

from catraca.settings.values import COMMAS, Duration, Group, Rate


class HttpSettings(Group):
    rate_limit_principal: Rate = Field(
        default="1200/minute", description="Requests of one authenticated caller."
    )
    rate_limit_anonymous: Rate = Field(
        default="120/minute", description="Requests without a valid token from one network address."
    )
    max_body_bytes: int = Field(default=64 * 1024, ge=1024, description="Largest request body.")
    connections_per_address: int = Field(
        default=256,
        ge=1,
        description="Connections of one network address to each process. Proxies have no limit.",
    )
    trusted_proxies: Annotated[list[IPv4Network | IPv6Network], *COMMAS] = Field(
        default_factory=list[IPv4Network | IPv6Network],
        description="Addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are used.",
    )
    cors_origins: Annotated[list[str], *COMMAS] = Field(
        default_factory=list[str], description="Origins whose pages may call the API."
    )
    metrics_public: bool = Field(
        default=True, description="Whether /metrics answers without an operator's token."
    )
    idempotency_retention: Duration = Field(
        default=timedelta(hours=24), description="How long responses are kept for repeated requests."
    )
