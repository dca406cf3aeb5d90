"""Request and response bodies of sign-in and password links."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from catraca.domains.people.credentials.model import PASSWORD_MAX_CHARACTERS, PASSWORD_MIN_CHARACTERS
from catraca.domains.people.second_factor.model import Proof
from catraca.domains.people.second_factor.schemas import Code, RecoveryCode
from catraca.platform.forms import Body, examples
from catraca.platform.lines import EMAIL_MAX_CHARACTERS


class SignIn(Body):
    model_config = examples(
        {"email": "ana@example.com", "password": "seven quiet turnstiles"},
        {"email": "ana@example.com", "password": "seven quiet turnstiles", "code": "287082"},
    )

    email: str = Field(min_length=1, max_length=EMAIL_MAX_CHARACTERS)
    password: SecretStr = Field(min_length=1, max_length=PASSWORD_MAX_CHARACTERS)
    code: Code | None = None
    recovery_code: RecoveryCode | None = None

    def proof(self) -> Proof:
        return Proof(self.code, self.recovery_code)


class TokenOut(BaseModel):
    model_config = examples({"access_token": "eyJ0eXAi...", "token_type": "bearer", "expires_in": 3600})

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105
    expires_in: int = Field(description="Seconds until the token expires.")


class NewPassword(Body):
    model_config = examples({"token": "the link's token", "password": "seven quiet turnstiles"})

    token: str = Field(min_length=1, max_length=128, description="The token of the one-use link.")
    password: SecretStr = Field(
        min_length=PASSWORD_MIN_CHARACTERS,
        max_length=PASSWORD_MAX_CHARACTERS,
        description="Any characters; only the length is checked.",
    )


class PasswordLinkOut(BaseModel):
    model_config = examples({"token": "returned once, here only", "expires_at": "2025-08-15T12:00:00Z"})

    token: str
    expires_at: datetime
