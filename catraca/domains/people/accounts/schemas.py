"""Request and response bodies of accounts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self, cast
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.people.accounts import model
from catraca.domains.people.accounts.model import UserChange
from catraca.domains.people.drivers.model import DriverChange
from catraca.domains.people.drivers.schemas import DriverPatch
from catraca.domains.people.model import Role, User
from catraca.domains.people.schemas import ANA, DriverOut, UserOut
from catraca.platform.auth import Principal
from catraca.platform.forms import Body, Email, Name, Page, cleaned, examples, left_out
from catraca.platform.texts import Language

Phone = Annotated[str, Field(json_schema_extra={"pattern": model.PHONE_PATTERN}), cleaned(model.clean_phone)]


class UserPage(Page[UserOut, UUID]):
    model_config = examples({"items": [{**ANA, "erased_at": None}], "next": None})

    @classmethod
    def of(cls, users: Sequence[User], *, limit: int) -> Self:
        return cls.split(users, limit=limit, item=UserOut.of, cursor=lambda user: user.id)


class MeOut(BaseModel):
    model_config = examples(ANA)

    id: UUID
    roles: list[str] = Field(description="The roles of this token.")
    name: str | None
    email: str | None
    email_pending: str | None = Field(
        description="Another address that is not confirmed yet: `POST /v1/me/email/confirm`."
    )
    phone: str | None
    language: Language
    driver: DriverOut | None = Field(description="For drivers only.")
    created_at: datetime

    @classmethod
    def of(cls, user: User, caller: Principal) -> Self:
        return cls(
            id=user.id,
            roles=sorted(caller.roles),
            name=user.name,
            email=user.email,
            email_pending=user.email_pending,
            phone=user.phone,
            language=user.language,
            driver=DriverOut.of(user.driver) if caller.has("driver") else None,
            created_at=user.created_at,
        )


class MePatch(Body):
    """Fields left out stay as they are; null clears a field that may be empty."""

    model_config = examples(
        {"name": "Ana Beatriz Moura", "phone": "+5571987654321"},
        {"driver": {"vehicle": "Fiat Cronos prata", "plate": "ABC-1D23"}},
    )

    name: Name = Field(default_factory=left_out)
    email: Email | None = Field(
        default=None, description="Another address is pending until it is confirmed with a code."
    )
    phone: Phone | None = Field(default=None, description="In E.164 format.")
    language: Language = Field(default_factory=left_out)
    driver: DriverPatch = Field(default_factory=left_out, description="For drivers only.")

    def user_change(self) -> UserChange:
        return cast(UserChange, self.model_dump(exclude_unset=True, exclude={"driver"}))

    def driver_change(self) -> DriverChange | None:
        if "driver" not in self.model_fields_set:
            return None
        return cast(DriverChange, self.driver.model_dump(exclude_unset=True))


class RolesIn(Body):
    model_config = examples({"roles": ["passenger", "operator"]})

    roles: list[Role] = Field(
        min_length=1, max_length=10, description="All roles of the user; they replace the old ones."
    )


class ExportOut(BaseModel):
    model_config = examples(
        {
            "id": ANA["id"],
            "exported_at": "2025-08-14T12:00:00Z",
            "sections": {"people": {"name": "Ana Beatriz Moura", "email": "ana@example.com"}},
        }
    )

    id: UUID
    exported_at: datetime
    sections: dict[str, object] = Field(description="The stored personal data, one section per domain.")
