"""What people's routes take and give."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from catraca.domains.people import model
from catraca.domains.people.model import Approval, Driver, DriverChange, Role, User, UserChange, Verdict
from catraca.platform.auth import Principal
from catraca.platform.texts import Language

ANA: JsonDict = {
    "id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
    "name": "Ana Beatriz Moura",
    "email": "ana@example.com",
    "phone": "+5571987654321",
    "language": "pt-BR",
    "driver": {
        "vehicle": "Fiat Cronos prata",
        "plate": "ABC1D23",
        "home_community_id": None,
        "approval": "approved",
        "approval_reason": None,
    },
    "created_at": "2025-08-14T12:00:00Z",
}


def _cleaned(clean: Callable[[str], str]) -> AfterValidator:
    """Whatever the model finds malformed is told by its code, like every other wrong field."""

    def check(text: str) -> str:
        try:
            return clean(text)
        except model.Malformed as malformed:
            raise PydanticCustomError(malformed.code, malformed.code) from malformed

    return AfterValidator(check)


def _line(max_characters: int) -> tuple[FieldInfo, AfterValidator]:
    shape: JsonDict = {"minLength": 1, "maxLength": max_characters, "pattern": model.LINE_PATTERN}
    cleaned = _cleaned(lambda text: model.clean_line(text, max_characters=max_characters))
    return Field(json_schema_extra=shape), cleaned


def left_out() -> Any:
    """For fields that may be left out but not emptied: `model_fields_set` says which were sent."""
    return None


Name = Annotated[str, *_line(model.NAME_MAX_CHARACTERS)]
Vehicle = Annotated[str, *_line(model.VEHICLE_MAX_CHARACTERS)]
Reason = Annotated[str, *_line(model.REASON_MAX_CHARACTERS)]
Address = Annotated[str, *_line(model.ADDRESS_MAX_CHARACTERS)]
Email = Annotated[
    str,
    Field(max_length=model.EMAIL_MAX_CHARACTERS, json_schema_extra={"pattern": model.EMAIL_PATTERN}),
    _cleaned(model.clean_email),
]
Phone = Annotated[str, Field(json_schema_extra={"pattern": model.PHONE_PATTERN}), _cleaned(model.clean_phone)]
Plate = Annotated[str, Field(json_schema_extra={"pattern": model.PLATE_PATTERN}), _cleaned(model.clean_plate)]


class Body(BaseModel):
    """A request's body: fields we do not know are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class SignIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"email": "ana@example.com", "password": "seven quiet turnstiles"}]}
    )

    email: str = Field(min_length=1, max_length=model.EMAIL_MAX_CHARACTERS)
    password: SecretStr = Field(min_length=1, max_length=model.PASSWORD_MAX_CHARACTERS)


class TokenOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"access_token": "eyJ0eXAi...", "token_type": "bearer", "expires_in": 3600}]
        }
    )

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105
    expires_in: int = Field(description="Seconds until it ends.")


class NewPassword(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"token": "the link's token", "password": "seven quiet turnstiles"}]}
    )

    token: str = Field(min_length=1, max_length=128, description="From the one-use link.")
    password: SecretStr = Field(
        min_length=model.PASSWORD_MIN_CHARACTERS,
        max_length=model.PASSWORD_MAX_CHARACTERS,
        description="Any characters; length is what counts.",
    )


class PasswordLinkOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"token": "shown once, and only here", "expires_at": "2025-08-15T12:00:00Z"}]
        }
    )

    token: str
    expires_at: datetime


class DriverOut(BaseModel):
    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None
    approval: Approval
    approval_reason: str | None

    @classmethod
    def of(cls, driver: Driver) -> Self:
        return cls(
            vehicle=driver.vehicle,
            plate=driver.plate,
            home_community_id=driver.home_community_id,
            approval=driver.approval,
            approval_reason=driver.approval_reason,
        )


class UserOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{**ANA, "roles": ["driver"], "erased_at": None}]}
    )

    id: UUID
    roles: list[str] = Field(description="What the person is known as.")
    name: str | None
    email: str | None
    phone: str | None
    language: Language
    driver: DriverOut | None
    created_at: datetime
    erased_at: datetime | None = Field(
        description="When the person's data was erased; nothing of it is left."
    )

    @classmethod
    def of(cls, user: User) -> Self:
        return cls(
            id=user.id,
            roles=list(user.roles),
            name=user.name,
            email=user.email,
            phone=user.phone,
            language=user.language,
            driver=DriverOut.of(user.driver) if user.driver else None,
            created_at=user.created_at,
            erased_at=user.erased_at,
        )


class UserPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"items": [{**ANA, "roles": ["driver"], "erased_at": None}], "next": None}]
        }
    )

    items: list[UserOut]
    next: UUID | None = Field(description="Ask for what follows with `after` set to this; null at the end.")

    @classmethod
    def of(cls, users: Sequence[User], *, limit: int) -> Self:
        """From one person more than the page takes: who is left over says that there is a next page."""
        items = [UserOut.of(user) for user in users[:limit]]
        return cls(items=items, next=items[-1].id if len(users) > limit else None)


class MeOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{**ANA, "roles": ["driver"]}]})

    id: UUID
    roles: list[str] = Field(description="What this token lets you act as.")
    name: str | None
    email: str | None
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
            phone=user.phone,
            language=user.language,
            driver=DriverOut.of(user.driver) if user.driver and caller.has("driver") else None,
            created_at=user.created_at,
        )


class DriverPatch(Body):
    vehicle: Vehicle | None = None
    plate: Plate | None = Field(default=None, description="Kept in capitals, without separators.")
    home_community_id: UUID | None = None


class MePatch(Body):
    """Fields left out stay as they are; null clears, where a field may be empty."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "Ana Beatriz Moura", "phone": "+5571987654321"},
                {"driver": {"vehicle": "Fiat Cronos prata", "plate": "ABC-1D23"}},
            ]
        }
    )

    name: Name = Field(default_factory=left_out)
    email: Email | None = None
    phone: Phone | None = Field(default=None, description="In the form of E.164.")
    language: Language = Field(default_factory=left_out)
    driver: DriverPatch = Field(default_factory=left_out, description="For drivers only.")

    def user_change(self) -> UserChange:
        return cast(UserChange, self.model_dump(exclude_unset=True, exclude={"driver"}))

    def driver_change(self) -> DriverChange | None:
        if "driver" not in self.model_fields_set:
            return None
        return cast(DriverChange, self.driver.model_dump(exclude_unset=True))


class ApprovalIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"approval": "suspended", "reason": "Seguro vencido"}]}
    )

    approval: Verdict
    reason: Reason | None = Field(default=None, description="Shown to the driver.")


class RolesIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"roles": ["passenger", "operator"]}]})

    roles: list[Role] = Field(
        min_length=1, max_length=10, description="All the roles the person has from now on."
    )


class ExportOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": ANA["id"],
                    "exported_at": "2025-08-14T12:00:00Z",
                    "sections": {"people": {"name": "Ana Beatriz Moura", "email": "ana@example.com"}},
                }
            ]
        }
    )

    id: UUID
    exported_at: datetime
    sections: dict[str, object] = Field(description="What is kept of the person, one section a domain.")
