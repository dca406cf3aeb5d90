"""Request and response bodies of sign-ups."""

from typing import Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.onboarding.model import Reason, Status
from catraca.domains.onboarding.service import ImportProgress
from catraca.platform.forms import Body, Email, Name, examples


class SignUpIn(Body):
    model_config = examples({"name": "João Silva", "email": "joao@example.com"})

    name: Name
    email: Email


class SignUpOut(BaseModel):
    model_config = examples(
        {
            "id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11",
            "status": "queued",
            "status_token": "q83vASNFZ4mrze8BI0VniTj0m1Cw0sW6uY1vB2fX8pLk3dHn5aGq7zRt9cEeJoMx",
        }
    )

    id: UUID = Field(description="The id of the user.")
    status: Literal["queued"] = "queued"
    status_token: str = Field(description="A bearer token that reads the status, and nothing else.")


class RefusedLine(BaseModel):
    line: int
    code: str


class ImportOut(BaseModel):
    model_config = examples(
        {
            "lines": 3,
            "accepted": 2,
            "refused": 1,
            "refused_lines": [{"line": 2, "code": "email_malformed"}],
        }
    )

    lines: int
    accepted: int = Field(description="Queued lines; each is then added or rejected.")
    refused: int = Field(description="Lines that were not queued.")
    refused_lines: list[RefusedLine] = Field(description="The first 1000 refused lines, with the reason.")

    @classmethod
    def of(cls, progress: ImportProgress) -> Self:
        refused = [RefusedLine(line=line, code=code) for line, code in progress.faults]
        return cls(
            lines=progress.lines,
            accepted=progress.accepted,
            refused=progress.refused,
            refused_lines=refused,
        )


class SignUpStatusOut(BaseModel):
    model_config = examples(
        {"id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11", "status": "created", "reason": None},
        {"id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11", "status": "rejected", "reason": "email_taken"},
    )

    id: UUID
    status: Literal["queued", "created", "rejected"]
    reason: Reason | None = Field(
        description="Why it was rejected: another user has the address (`email_taken`), the `Idempotency-Key`"
        " was used for another sign-up (`key_reused`), another user has the id (`id_taken`), or an operator"
        " discarded it (`discarded`)."
    )

    @classmethod
    def of(cls, sign_up_id: UUID, status: Status) -> Self:
        return cls(id=sign_up_id, status=status.status, reason=status.reason)
