"""Response bodies that several features share."""

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import Field
from pydantic.config import JsonDict

from catraca.domains.people.model import Approval, Driver, User
from catraca.platform.forms import Answer, examples
from catraca.platform.texts import Language

ANA: JsonDict = {
    "id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
    "name": "Ana Beatriz Moura",
    "email": "ana@example.com",
    "email_pending": None,
    "phone": "+5571987654321",
    "language": "pt-BR",
    "roles": ["driver"],
    "driver": {
        "vehicle": "Fiat Cronos prata",
        "plate": "ABC1D23",
        "home_community_id": None,
        "approval": "approved",
        "approval_reason": None,
    },
    "created_at": "2025-08-14T12:00:00Z",
}


class DriverOut(Answer):
    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None
    approval: Approval
    approval_reason: str | None

    @classmethod
    def of(cls, driver: Driver | None) -> Self | None:
        return None if driver is None else cls.model_validate(driver)


class UserOut(Answer):
    model_config = examples({**ANA, "erased_at": None})

    id: UUID
    roles: list[str] = Field(description="The stored roles of the user.")
    name: str | None
    email: str | None
    email_pending: str | None = Field(description="Another address that is not confirmed yet.")
    phone: str | None
    language: Language
    driver: DriverOut | None
    created_at: datetime
    erased_at: datetime | None = Field(description="When the personal data was erased; null if it was not.")

    @classmethod
    def of(cls, user: User) -> Self:
        return cls.model_validate(user)
