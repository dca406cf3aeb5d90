"""A finding of the doctor: the thing checked, the verdict, the facts, and the remedy."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from catraca.platform.server_info import ClockSkew
from catraca.settings import Settings

VerdictWord = Literal["ok", "warning", "problem"]

SKEW_WARNING_SECONDS = 1.0
SKEW_PROBLEM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    verdict: VerdictWord
    found: str
    remedy: str = ""


Check = Callable[[Settings], Awaitable[list[Finding]]]


def ok(name: str, found: str) -> Finding:
    return Finding(name, "ok", found)


def warning(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, "warning", found, remedy)


def problem(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, "problem", found, remedy)


def judge_clock(name: str, skew: ClockSkew) -> Finding:
    """Skew counts only beyond the uncertainty of its measurement."""
    way = "ahead of" if skew.ahead_seconds > 0 else "behind"
    found = f"{abs(skew.ahead_seconds):.1f} s {way} this machine"
    remedy = "Synchronize both machines with NTP (timedatectl set-ntp true)."
    if skew.surely_seconds > SKEW_PROBLEM_SECONDS:
        return problem(name, found, remedy)
    if skew.surely_seconds > SKEW_WARNING_SECONDS:
        return warning(name, found, remedy)
    return ok(name, f"within {skew.uncertain_seconds + abs(skew.ahead_seconds):.3f} s of this machine")


def version_of(text: str) -> tuple[int, ...]:
    """`6.2.12-rc1` as comparable numbers."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
