"""What onboarding's routes take and give."""

from typing import Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.onboarding.model import Reason, Status
from catraca.domains.onboarding.service import ImportedSoFar
from catraca.platform.forms import Body, Email, Name


class SignUpIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "João Silva", "email": "joao@example.com"}]}
    )

    name: Name
    email: Email


class SignUpOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11",
                    "status": "queued",
                    "status_token": "q83vASNFZ4mrze8BI0VniTj0m1Cw0sW6uY1vB2fX8pLk3dHn5aGq7zRt9cEeJoMx",
                }
            ]
        }
    )

    id: UUID = Field(description="The person's, once there is one.")
    status: Literal["queued"] = "queued"
    status_token: str = Field(description="Asks for the status, as a bearer token; good for nothing else.")


class RefusedLine(BaseModel):
    line: int
    code: str


class ImportOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "lines": 3,
                    "accepted": 2,
                    "refused": 1,
                    "refused_lines": [{"line": 2, "code": "email_malformed"}],
                }
            ]
        }
    )

    lines: int
    accepted: int = Field(description="Queued; each will be a person, or rejected.")
    refused: int = Field(description="Not queued.")
    refused_lines: list[RefusedLine] = Field(description="The first thousand of those, and why.")

    @classmethod
    def of(cls, done: ImportedSoFar) -> Self:
        refused = [RefusedLine(line=line, code=code) for line, code in done.faults]
        return cls(lines=done.lines, accepted=done.accepted, refused=done.refused, refused_lines=refused)


class StatusOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11", "status": "created", "reason": None},
                {"id": "3f0c0f7e-6f52-4b62-9c43-0f6f6d3a8f11", "status": "rejected", "reason": "email_taken"},
            ]
        }
    )

    id: UUID
    status: Literal["queued", "created", "rejected"]
    reason: Reason | None = Field(
        description="Why it was rejected: the address is another's (`email_taken`), the `Idempotency-Key` was"
        " used before for another sign-up (`key_reused`), the id is another's (`id_taken`), or an operator"
        " gave up on it (`discarded`)."
    )

    @classmethod
    def of(cls, sign_up_id: UUID, status: Status) -> Self:
        return cls(id=sign_up_id, status=status.status, reason=status.reason)
