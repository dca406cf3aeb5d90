"""Attempts to accept rides and their answers."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from tests.support.http import Answer


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
        """Record an answer; a repeat must get the same bytes."""
        known = self.answers.setdefault(tried, answer)
        assert (known.status, known.body) == (answer.status, answer.body), (
            f"{tried} got first {known.status} {known.body.decode()},"
            f" then {answer.status} {answer.body.decode()}"
        )


def code_of(answer: Answer) -> str:
    """The code of a refusal, or `accepted`."""
    if answer.status == 200:
        return "accepted"
    problem = answer.problem()
    return "accepted_by_you" if problem.get("accepted_by_you") else str(problem["code"])


def expect(code: str, answer: Answer, *, who: str = "the caller") -> None:
    assert code_of(answer) == code, f"{who} expected {code}, got {answer.status} {answer.body.decode()}"
