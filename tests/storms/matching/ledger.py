"""The actions of passengers and drivers of a town, and the answers they got."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from catraca.platform.database import Db
from tests.storms.rides.ledger import Ledger, Try

# Pairs of a ride and a user.
Pairs = set[tuple[UUID, UUID]]
FACTS = {
    "asked for": "SELECT id AS ride_id, passenger_id AS who FROM rides",
    "completed": "SELECT id AS ride_id, accepted_driver_id AS who FROM rides WHERE status = 'COMPLETED'",
    "canceled": """
        SELECT ride_id, actor_id AS who FROM ride_events
        WHERE to_status = 'CANCELED' AND actor <> 'system'""",
    "given up": "SELECT ride_id, actor_id AS who FROM ride_events WHERE news = 'ride.reassigning'",
    "refused": "SELECT ride_id, driver_id AS who FROM ride_offers WHERE response = 'REJECTED'",
}


@dataclass
class TownLedger:
    # Confirmed actions by ride; complete, because every caller repeats until it is answered.
    done: dict[str, Pairs] = field(default_factory=lambda: {what: set() for what in FACTS})
    # Drivers who lost their ride.
    robbed: Pairs = field(default_factory=set)
    # The end of each ride as its passenger saw it: status and driver.
    ends: dict[UUID, tuple[str, str | None]] = field(default_factory=dict)
    whims: Counter[str] = field(default_factory=Counter)


async def count_for_newest_offers(db: Db, ledger: Ledger) -> None:
    """An attempt names the ride, so it counts for the newest offer at that time.

    A driver who lost a ride gets a new offer when the winner gives it up.
    """
    rows = await db.fetch(
        "SELECT DISTINCT ON (driver_id, idempotency_key) ride_id, driver_id, offer_id, idempotency_key"
        " FROM ride_accept_attempts a JOIN ride_offers o USING (ride_id, driver_id)"
        " WHERE o.id = a.offer_id ORDER BY driver_id, idempotency_key, o.attempt DESC"
    )
    counted = {(row["ride_id"], row["driver_id"], row["idempotency_key"]): row["offer_id"] for row in rows}
    for tried in list(ledger.answers):
        offer_id = counted.get((tried.ride_id, tried.driver_id, tried.key), tried.offer_id)
        if offer_id != tried.offer_id:
            ledger.answers[Try(tried.ride_id, tried.driver_id, offer_id, tried.key)] = ledger.answers.pop(
                tried
            )


async def broken_by_town(db: Db, ledger: TownLedger) -> list[str]:
    """Differences between the answers and the database."""
    broken: list[str] = []
    for what, query in FACTS.items():
        found = {(row["ride_id"], row["who"]) for row in await db.fetch(query)}
        if differ := found ^ ledger.done[what]:
            broken.append(f"{len(differ)} rides differ from the answers in being {what}: {list(differ)[:5]}")
    rows = await db.fetch("SELECT id, status, accepted_driver_id FROM rides")
    ends = {row["id"]: (row["status"], _name(row["accepted_driver_id"])) for row in rows}
    if differ := ends.items() ^ ledger.ends.items():
        broken.append(f"{len(differ) / 2:g} rides ended differently than passengers saw: {list(differ)[:6]}")
    # Only a passenger takes a ride away from its driver.
    canceled = {ride_id for ride_id, _ in ledger.done["canceled"]}
    if odd := [pair for pair in ledger.robbed if pair[0] not in canceled]:
        broken.append(f"{len(odd)} drivers lost rides that were not canceled: {odd[:5]}")
    return broken


def _name(driver_id: UUID | None) -> str | None:
    return None if driver_id is None else str(driver_id)
