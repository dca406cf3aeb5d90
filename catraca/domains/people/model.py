"""Users and drivers as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from catraca.platform.texts import Language

UserId = NewType("UserId", UUID)
Role = Literal["passenger", "driver", "worker", "operator", "service"]
Approval = Literal["pending", "approved", "refused", "suspended"]
ApprovalRule = Literal["automatic", "required"]
"""`required`: an operator must approve a driver before the first ride."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None
    approval: Approval
    approval_reason: str | None = None
    approval_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: UserId
    roles: tuple[str, ...]
    name: str | None
    email: str | None
    phone: str | None
    language: Language
    created_at: datetime
    erased_at: datetime | None = None
    has_password: bool = False
    # Another address that is not confirmed yet.
    email_pending: str | None = None
    driver: Driver | None = None
