"""Request and response bodies of second factors."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, Field

from catraca.domains.people.second_factor.model import Factor, Proof
from catraca.platform.forms import Body, examples

Code = Annotated[str, Field(pattern=r"^[0-9]{6}$", description="The six digits that the app shows.")]
RecoveryCode = Annotated[
    str, Field(min_length=1, max_length=64, description="A recovery code, instead of `code`.")
]
TEN_CODES = [f"{letter}bcd-efgh-2345-7xyz" for letter in "abcdefghij"]


class SecondFactorOut(BaseModel):
    model_config = examples({"on": True, "confirmed_at": "2026-03-02T12:00:00Z", "recovery_codes_left": 10})

    on: bool = Field(description="Whether sign-ins ask for a code.")
    confirmed_at: datetime | None
    recovery_codes_left: int

    @classmethod
    def of(cls, factor: Factor | None) -> Self:
        if factor is None or factor.confirmed_at is None:
            return cls(on=False, confirmed_at=None, recovery_codes_left=0)
        return cls(on=True, confirmed_at=factor.confirmed_at, recovery_codes_left=factor.recovery_codes_left)


class NewFactorOut(BaseModel):
    model_config = examples(
        {
            "secret": "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
            "uri": "otpauth://totp/Catraca:ana%40example.com?digits=6&secret=JBSWY3DPEHPK3PXP&period=30",
        }
    )

    secret: str = Field(description="For the app, in base32. Returned once, here only.")
    uri: str = Field(description="The same as an address (`otpauth:`), to show as a QR code.")


class CodeIn(Body):
    model_config = examples({"code": "287082"})

    code: Code


class ProofIn(Body):
    """One of the two; `code` counts if both are given."""

    model_config = examples({"code": "287082"}, {"recovery_code": "abcd-efgh-2345-7xyz"})

    code: Code | None = None
    recovery_code: RecoveryCode | None = None

    def proof(self) -> Proof:
        return Proof(self.code, self.recovery_code)


class RecoveryCodesOut(BaseModel):
    model_config = examples({"recovery_codes": [*TEN_CODES]})

    recovery_codes: list[str] = Field(description="Each works once. Returned once, here only.")
