"""Rides and offers as plain tables with the rules of the database.

A failed transaction is rolled back; its events are published at the commit. A row that a transaction has
locked cannot be locked by another until then.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

START = datetime(2026, 2, 21, 10, 0, tzinfo=UTC)
# How long after the deadline the ride's own timer ends it.
OVERTIME = timedelta(seconds=10)
OPEN = ("REQUESTED", "SEARCHING", "OFFERED")
OVER = ("COMPLETED", "CANCELED", "EXPIRED")
# Answers after which a driver is not asked again. A driver who lost an offer to another can be asked.
DECLINED = ("REJECTED", "EXPIRED", "ACCEPTED")

TimerKind = Literal["rides.due", "matching.due", "matching.wake"]


class RowLocked(Exception):
    """Another transaction has locked the ride."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ride:
    id: int
    # Metres along a line.
    pickup: int
    since: datetime
    deadline_at: datetime
    status: str = "REQUESTED"
    round: int = 1
    driver: int | None = None
    ended_at: datetime | None = None
    ended_by: str | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    ride: int
    driver: int
    round: int
    attempt: int
    at: datetime
    expires_at: datetime
    # Search and radius; None for an operator's offer.
    search: int | None = None
    radius: int | None = None
    distance: int | None = None
    response: str | None = None
    held: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvent:
    key: str
    ride: int | None = None
    round: int = 0
    at: datetime
    driver: int | None = None
    attempt: int | None = None
    more: tuple[Any, ...] = ()


@dataclass(eq=False)
class Transaction:
    undo: list[tuple[dict[Any, Any], Any, Any]] = field(default_factory=list)
    events: list[PublishedEvent] = field(default_factory=list)
    locked: set[int] = field(default_factory=set)

    def put(self, table: dict[Any, Any], key: Any, row: Any) -> None:
        self.undo.append((table, key, table.get(key)))
        table[key] = row

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        self.undo.append((table, key, table.get(key)))
        table.pop(key, None)

    def roll_back(self) -> None:
        for table, key, row in reversed(self.undo):
            if row is None:
                table.pop(key, None)
            else:
                table[key] = row


class Rides:
    """The tables, and all changes except those of matching."""

    def __init__(self, *, search: timedelta) -> None:
        self.now = START
        self.search = search
        self.rides: dict[int, Ride] = {}
        self.offers: dict[tuple[int, int], Offer] = {}
        self.timers: dict[tuple[TimerKind, int], datetime] = {}
        self.published: list[PublishedEvent] = []
        self._locked: set[int] = set()
        self._under_way: list[Transaction] = []

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        tx = Transaction()
        self._under_way.append(tx)
        try:
            yield tx
        except BaseException:
            tx.roll_back()
            raise
        else:
            self.published += tx.events
            self.publish(tx.events)
        finally:
            self._under_way.remove(tx)
            self._locked -= tx.locked

    def publish(self, events: Sequence[PublishedEvent]) -> None:
        """Deliver published events; does nothing here."""

    def lock_ride(self, tx: Transaction, ride_id: int) -> Ride:
        if ride_id not in tx.locked:
            if ride_id in self._locked:
                raise RowLocked
            tx.locked.add(ride_id)
            self._locked.add(ride_id)
        return self.rides[ride_id]

    def record_event(self, tx: Transaction, key: str, ride: Ride, **more: Any) -> None:
        tx.events.append(PublishedEvent(key=key, ride=ride.id, at=self.now, **{"round": ride.round} | more))

    def offers_of(self, ride_id: int) -> list[Offer]:
        return [offer for offer in self.offers.values() if offer.ride == ride_id]

    def live(self, ride_id: int) -> list[Offer]:
        return [offer for offer in self.offers_of(ride_id) if offer.response is None]

    def held_offer(self, driver: int) -> Offer | None:
        """Return the offer that reserves the driver: an open one, or that of the present ride."""
        return next((offer for offer in self.offers.values() if offer.held and offer.driver == driver), None)

    def last_answers(self, ride_id: int) -> dict[int, str | None]:
        return {offer.driver: offer.response for offer in self.offers_of(ride_id)}

    def request(self, pickup: int = 0) -> int:
        ride = Ride(id=len(self.rides) + 1, pickup=pickup, since=self.now, deadline_at=self.now + self.search)
        with self.transaction() as tx:
            tx.put(self.rides, ride.id, ride)
            self.set_due(tx, ride)
            self.record_event(tx, "ride.requested", ride)
        return ride.id

    def set_due(self, tx: Transaction, ride: Ride) -> None:
        if not ride.is_open:
            tx.drop(self.timers, ("rides.due", ride.id))
            return
        expiries = [offer.expires_at for offer in self.live(ride.id)]
        tx.put(self.timers, ("rides.due", ride.id), min(expiries, default=ride.deadline_at + OVERTIME))

    def move(self, tx: Transaction, ride: Ride, status: str, **change: Any) -> Ride:
        ride = replace(ride, status=status, **change)
        tx.put(self.rides, ride.id, ride)
        return ride

    def make_offers(
        self,
        tx: Transaction,
        ride: Ride,
        drivers: Sequence[int],
        *,
        ttl: timedelta,
        **search: dict[int, Any],
    ) -> list[Offer]:
        """Make offers to free drivers; `search` has fields of each driver's offer."""
        made: list[Offer] = []
        gave_up = {offer.driver for offer in self.offers_of(ride.id) if offer.response == "ACCEPTED"}
        for driver in drivers:
            self._free_lapsed(tx, driver)
            is_free = self.held_offer(driver) is None and not self._release_is_uncommitted(tx, driver)
            if driver in gave_up or not is_free or self.now >= ride.deadline_at:
                continue
            attempt = len(self.offers_of(ride.id)) + 1
            offer = Offer(
                ride=ride.id,
                driver=driver,
                round=ride.round,
                attempt=attempt,
                at=self.now,
                expires_at=min(self.now + ttl, ride.deadline_at),
                **{name: of[driver] for name, of in search.items()},
            )
            tx.put(self.offers, (ride.id, attempt), offer)
            made.append(offer)
        if made:
            ride = self.move(tx, ride, "OFFERED")
            for offer in made:
                self.record_event(
                    tx, "matching.candidate_found", ride, driver=offer.driver, attempt=offer.attempt
                )
            self.set_due(tx, ride)
        return made

    def _free_lapsed(self, tx: Transaction, driver: int) -> None:
        offer = self.held_offer(driver)
        if (
            offer
            and offer.response is None
            and offer.expires_at <= self.now
            and offer.ride not in self._locked
        ):
            self.set_due(tx, self.expire(tx, self.lock_ride(tx, offer.ride)))

    def _release_is_uncommitted(self, tx: Transaction, driver: int) -> bool:
        """Return True if another open transaction has released the driver."""
        return any(
            isinstance(row, Offer) and row.held and row.driver == driver
            for other in self._under_way
            if other is not tx
            for _, _, row in other.undo
        )

    def offer_by_hand(self, ride_id: int, driver: int, ttl: timedelta) -> None:
        with self.transaction() as tx:
            ride = self.expire(tx, self.lock_ride(tx, ride_id))
            if ride.is_open and self.now < ride.deadline_at:
                self.make_offers(tx, ride, [driver], ttl=ttl)

    def expire(self, tx: Transaction, ride: Ride) -> Ride:
        """End the expired offers of a locked ride."""
        lapsed = [offer for offer in self.live(ride.id) if offer.expires_at <= self.now]
        for offer in lapsed:
            ride = self._answer(tx, ride, offer, "EXPIRED", "matching.driver_timeout")
        return ride

    def _answer(self, tx: Transaction, ride: Ride, offer: Offer, response: str, key: str) -> Ride:
        tx.put(self.offers, (ride.id, offer.attempt), replace(offer, response=response, held=False))
        if ride.status == "OFFERED" and not self.live(ride.id):
            ride = self.move(tx, ride, "SEARCHING")
        self.record_event(tx, key, ride, driver=offer.driver, attempt=offer.attempt, round=offer.round)
        return ride

    def _live_offer(self, driver: int) -> Offer | None:
        """Return the driver's open offer."""
        offer = self.held_offer(driver)
        return offer if offer and offer.response is None and offer.expires_at > self.now else None

    def refuse(self, driver: int) -> None:
        with self.transaction() as tx:
            self._end_offer(tx, driver, "REJECTED", "matching.driver_rejected")

    def withdraw(self, tx: Transaction, driver: int) -> None:
        """End the offer of a driver who went offline."""
        self._end_offer(tx, driver, "EXPIRED", "matching.driver_timeout")

    def _end_offer(self, tx: Transaction, driver: int, response: str, key: str) -> None:
        if offer := self._live_offer(driver):
            ride = self._answer(tx, self.lock_ride(tx, offer.ride), offer, response, key)
            self.set_due(tx, ride)

    def accept(self, driver: int) -> None:
        with self.transaction() as tx:
            if offer := self._live_offer(driver):
                ride = self.lock_ride(tx, offer.ride)
                tx.put(self.offers, (ride.id, offer.attempt), replace(offer, response="ACCEPTED"))
                self.cancel_offers(tx, ride)
                ride = self.move(tx, ride, "ACCEPTED", driver=driver)
                self.record_event(tx, "matching.driver_accepted", ride, driver=driver, attempt=offer.attempt)
                self.set_due(tx, ride)

    def cancel_offers(self, tx: Transaction, ride: Ride) -> None:
        for offer in self.live(ride.id):
            tx.put(self.offers, (ride.id, offer.attempt), replace(offer, response="CANCELED", held=False))
            self.record_event(tx, "offer.canceled", ride, driver=offer.driver, attempt=offer.attempt)

    def give_up(self, driver: int) -> None:
        """The driver gives the ride up: a new round begins."""
        with self.transaction() as tx:
            if ride := self._release(tx, driver):
                ride = self.move(
                    tx,
                    ride,
                    "SEARCHING",
                    driver=None,
                    round=ride.round + 1,
                    since=self.now,
                    deadline_at=self.now + self.search,
                )
                self.record_event(tx, "ride.reassigning", ride, driver=driver)
                self.set_due(tx, ride)

    def complete(self, driver: int) -> None:
        with self.transaction() as tx:
            if ride := self._release(tx, driver):
                ride = self.move(tx, ride, "COMPLETED", ended_at=self.now)
                self.record_event(tx, "ride.completed", ride, driver=driver)

    def _release(self, tx: Transaction, driver: int) -> Ride | None:
        offer = self.held_offer(driver)
        if offer is None or offer.response != "ACCEPTED":
            return None
        ride = self.lock_ride(tx, offer.ride)
        tx.put(self.offers, (ride.id, offer.attempt), replace(offer, held=False))
        return ride

    def cancel(self, ride_id: int) -> None:
        """The passenger cancels."""
        with self.transaction() as tx:
            ride = self.lock_ride(tx, ride_id)
            if ride.status in OVER:
                return
            if ride.driver is not None:
                self._release(tx, ride.driver)
            self.cancel_offers(tx, ride)
            ride = self.move(tx, ride, "CANCELED", ended_at=self.now, ended_by="passenger")
            self.record_event(tx, "ride.cancelled", ride, driver=ride.driver)
            self.set_due(tx, ride)

    def end_search(self, tx: Transaction, ride: Ride, *, by: str, searched: bool = False) -> Ride:
        """End an open, locked ride without a driver."""
        ride = self.expire(tx, ride)
        self.cancel_offers(tx, ride)
        status = "EXPIRED" if ride.status == "REQUESTED" and not searched else "CANCELED"
        ride = self.move(tx, ride, status, ended_at=self.now, ended_by=by)
        self.record_event(tx, "ride.cancelled", ride)
        self.set_due(tx, ride)
        return ride

    def fire_ride_timer(self, tx: Transaction, ride_id: int) -> None:
        """Run the ride's own timer."""
        ride = self.lock_ride(tx, ride_id)
        if not ride.is_open:
            return
        ride = self.expire(tx, ride)
        if self.now >= ride.deadline_at + OVERTIME:
            self.end_search(tx, ride, by="rides")
        else:
            self.set_due(tx, ride)
