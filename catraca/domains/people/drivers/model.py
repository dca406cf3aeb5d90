"""The driver profile: licence plates, and when a change needs a new approval."""

import re
from dataclasses import replace
from typing import Literal, TypedDict
from uuid import UUID

from catraca.domains.people.model import Approval, ApprovalRule, Driver
from catraca.platform.lines import Malformed

Verdict = Literal["approved", "refused", "suspended"]

VEHICLE_MAX_CHARACTERS = 80
# Brazil's plates are ABC1D23 and ABC1234; other countries' plates fit the same pattern.
PLATE_PATTERN = r"^[A-Za-z0-9]([ .-]?[A-Za-z0-9]){3,9}$"


class DriverChange(TypedDict, total=False):
    """Only the fields that change; None clears a field."""

    vehicle: str | None
    plate: str | None
    home_community_id: UUID | None


def first_approval(rule: ApprovalRule) -> Approval:
    return "pending" if rule == "required" else "approved"


def changed_driver(driver: Driver, change: DriverChange, *, rule: ApprovalRule) -> Driver:
    """The driver after the change. An approval is for one car: another car needs a new approval."""
    changed = replace(driver, **change)
    same_car = (changed.vehicle, changed.plate) == (driver.vehicle, driver.plate)
    if same_car or rule == "automatic" or driver.approval != "approved":
        return changed
    return replace(changed, approval="pending", approval_reason=None)


def clean_plate(text: str) -> str:
    """Letters and digits only, in capitals."""
    if not re.fullmatch(PLATE_PATTERN, text):
        raise Malformed("plate_malformed")
    return re.sub(r"[ .-]", "", text).upper()
