"""Tokens: the secret that signs them, or the identity provider that does."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from catraca.platform.outbound import read_url
from catraca.settings.values import Duration, Group, is_loopback


def _encrypted_or_local(value: str) -> str:
    """The provider may be inside the operator's network, so its address is not checked, only the URL's form.

    A key that is read without encryption can be replaced on its way, and then signs any token.
    """
    url = read_url(value, schemes=("https", "http"), inside=True)
    if url.scheme == "http" and not is_loopback(url.host):
        raise ValueError("the address must begin with https://; http:// is for a loopback address only")
    return value


class AccessSettings(Group):
    secret: str | None = Field(
        default=None, repr=False, description="Signs tokens; unset: generated once into the state folder."
    )
    jwks_url: Annotated[str, AfterValidator(_encrypted_or_local)] | None = Field(
        default=None, description="Keys of an identity provider, which then signs tokens instead of Catraca."
    )
    jwt_issuer: str = Field(default="catraca", description="The `iss` that tokens must have.")
    jwt_audience: str = Field(default="catraca", description="The `aud` that tokens must have.")
    jwt_roles_claim: str = Field(
        default="roles", description="The claim that lists roles; dots for nested claims."
    )
    operator_second_factor: Literal["optional", "required"] = Field(
        default="optional",
        description="Whether the role operator is granted only after a sign-in with a second factor.",
    )
    fresh_sign_in: Duration = Field(
        default=timedelta(minutes=10),
        description="How long ago a sign-in may be for erasing, roles, password links and second factors.",
    )
