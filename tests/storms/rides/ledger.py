"""Attempts to accept rides and their answers."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import msgspec

from tests.support.http import Answer

DETAILS = ("passenger_id", "pickup_lat", "pickup_lon", "dropoff_lat", "dropoff_lon")


@dataclass(frozen=True, slots=True)
class Try:
    """An attempt; sent again, it is the same attempt."""

    ride_id: UUID
    driver_id: UUID
    # The driver's newest offer of this ride, if any.
    offer_id: UUID | None
    key: str = field(default_factory=lambda: uuid4().hex)


@dataclass
class Ledger:
    answers: dict[Try, Answer] = field(default_factory=dict)
    # Counts of answers by status, repeats and 503s included, and of lost connections.
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, tried: Try, answer: Answer) -> None:
        """Record an answer; a repeat must get the same bytes.

        Of a ride that the driver no longer drives, the winner's repeat has no passenger and no places.
        """
        known = self.answers.setdefault(tried, answer)
        is_repeat = known.status == answer.status and answer.body in (known.body, _without_details(known))
        assert is_repeat, (
            f"{tried} got first {known.status} {known.body.decode()},"
            f" then {answer.status} {answer.body.decode()}"
        )


def _without_details(answer: Answer) -> bytes | None:
    if answer.status != 200:
        return None
    accepted = msgspec.json.decode(answer.body, type=dict[str, object])
    return msgspec.json.encode(accepted | dict.fromkeys(DETAILS))


def code_of(answer: Answer) -> str:
    """The code of a refusal, or `accepted`."""
    if answer.status == 200:
        return "accepted"
    problem = answer.problem()
    return "accepted_by_you" if problem.get("accepted_by_you") else str(problem["code"])


def expect(code: str, answer: Answer, *, who: str = "the caller") -> None:
    assert code_of(answer) == code, f"{who} expected {code}, got {answer.status} {answer.body.decode()}"
