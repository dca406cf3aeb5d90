"""A ride during its search."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.rides.model import Offer, Response, Ride


class RidesCollide(Exception):
    """These of several rides need a transaction each: other transactions use them or their drivers."""

    def __init__(self, ride_ids: Collection[UUID]) -> None:
        super().__init__(f"{len(ride_ids)} rides")
        self.ride_ids = ride_ids


@dataclass(frozen=True, slots=True)
class LockedRide:
    """A ride that this transaction has locked, its offers of all rounds in order, and the database's time."""

    ride: Ride
    now: datetime
    offers: Sequence[Offer]

    @property
    def live(self) -> int:
        """Number of live offers."""
        return sum(offer.response is None for offer in self.offers)

    @property
    def first_expiry(self) -> datetime | None:
        """When the first live offer expires."""
        return min((offer.expires_at for offer in self.offers if offer.response is None), default=None)

    @property
    def has_lapsed_offers(self) -> bool:
        """True if an offer's time is over and the offer is not ended yet."""
        return self.first_expiry is not None and self.first_expiry <= self.now

    @property
    def answers(self) -> dict[UUID, Response | None]:
        """The last response of each driver."""
        return {offer.driver_id: offer.response for offer in self.offers}

    @property
    def round_offers(self) -> list[Offer]:
        """The offers of the present round."""
        return [offer for offer in self.offers if offer.round == self.ride.round]

    @property
    def offered_to_the_end(self) -> bool:
        """True if a driver could have accepted until the deadline. Offers withdrawn before do not count."""
        return any(
            offer.response == "EXPIRED"
            and min(offer.expires_at, offer.responded_at or offer.expires_at) >= self.ride.deadline_at
            for offer in self.round_offers
        )

    def drivers_with(
        self, response: Response, *, limit: int, only_this_round: bool = False
    ) -> tuple[UUID, ...]:
        """Return the last `limit` drivers with this response."""
        offers = self.round_offers if only_this_round else self.offers
        return tuple(offer.driver_id for offer in offers if offer.response == response)[-limit:]

    def with_offers(self, ride: Ride, offers: Sequence[Offer]) -> "LockedRide":
        """Return the ride after these offers were made."""
        return LockedRide(ride, self.now, [*self.offers, *offers])
