"""Tokens: the secret that signs them, or the identity provider that does."""

from typing import Annotated

from pydantic import Field

from catraca.settings.values import Group, with_scheme


class AccessSettings(Group):
    secret: str | None = Field(
        default=None, repr=False, description="Signs tokens; unset: generated once into the state folder."
    )
    jwks_url: Annotated[str, with_scheme("https", "http")] | None = Field(
        default=None, description="Keys of an identity provider, which then signs tokens instead of Catraca."
    )
    jwt_issuer: str = Field(default="catraca", description="The `iss` that tokens must have.")
    jwt_audience: str = Field(default="catraca", description="The `aud` that tokens must have.")
    jwt_roles_claim: str = Field(
        default="roles", description="The claim that lists roles; dots for nested claims."
    )
