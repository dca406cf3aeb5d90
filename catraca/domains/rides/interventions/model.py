"""How and why an operator ends a ride."""

from typing import Literal

EndOutcome = Literal["completed", "canceled"]
EndReason = Literal[
    "forgotten",
    "driver_unreachable",
    "passenger_unreachable",
    "emergency",
    "operator_decision",
    "other",
]
