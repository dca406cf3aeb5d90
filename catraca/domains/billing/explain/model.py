"""The story of a charge, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from catraca.domains.billing.charges.model import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`what`: a status, a provider or a kind of transfer. `detail`: an actor, a reference or two accounts."""

    at: datetime
    kind: Literal["step", "capture", "posting"]
    what: str
    detail: str
    cents: int | None


@dataclass(frozen=True, slots=True)
class Story:
    charge: Charge
    lines: list[Line]
