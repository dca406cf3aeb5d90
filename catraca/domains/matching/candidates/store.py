"""SQL on matching_searches: rows are inserted once, never updated, and deleted after their retention."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from catraca.domains.matching.candidates.model import SearchRecord, SeenDriver, Verdict
from catraca.platform.database import Db, Row
from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld
from catraca.platform.database.retention import prune_rows
from catraca.platform.ids import new_id

COLUMNS = "round, search, at, radius_meters, source, cause, outcome, next_at, verdicts, seen"
_decode_verdicts = msgspec.json.Decoder(dict[Verdict, int]).decode
_decode_seen = msgspec.json.Decoder(list[SeenDriver]).decode


async def insert_searches(db: Db, records: Sequence[tuple[UUID, SearchRecord]]) -> None:
    """Insert the searches, each with its ride; those of one ride in their order."""
    if not records:
        return
    rows = [
        (
            new_id(),
            ride_id,
            record.round,
            record.search,
            record.at,
            record.radius_meters,
            record.source,
            record.cause,
            record.outcome,
            record.next_at,
            msgspec.json.encode(record.verdicts).decode(),
            msgspec.json.encode(record.seen).decode(),
        )
        for ride_id, record in records
    ]
    await db.execute(
        f"INSERT INTO matching_searches (id, ride_id, {COLUMNS})"  # noqa: S608 - a constant
        " SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::integer[], $5::timestamptz[],"
        "   $6::integer[], $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::jsonb[],"
        "   $12::jsonb[])",
        *zip(*rows, strict=True),
    )


async def read_searches(db: Db, ride_id: UUID, *, limit: int) -> list[SearchRecord]:
    """Return the last searches of a ride, the oldest first."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM matching_searches WHERE ride_id = $1"  # noqa: S608 - a constant
        # Two rows of the same time are one search and the next.
        " ORDER BY at DESC, search DESC, id DESC LIMIT $2",
        ride_id,
        limit,
    )
    return [_record(row) for row in reversed(rows)]


def _record(row: Row) -> SearchRecord:
    fields: dict[str, Any] = dict(row)
    fields["verdicts"], fields["seen"] = _decode_verdicts(row["verdicts"]), _decode_seen(row["seen"])
    return SearchRecord(**fields)


async def last_search(db: Db, ride_id: UUID, round_number: int) -> tuple[int, int]:
    """Return number and radius of the round's last search; (0, 0) if there was none."""
    row = await db.fetchrow(
        "SELECT search, radius_meters FROM matching_searches WHERE ride_id = $1 AND round = $2"
        " ORDER BY at DESC, search DESC LIMIT 1",
        ride_id,
        round_number,
    )
    return (0, 0) if row is None else (row["search"], row["radius_meters"])


async def prune_searches(db: Db, *, older_than: timedelta) -> int:
    """Delete a bounded number of older rows; return how many."""
    return await prune_rows(db, "matching_searches", aged_by="at", older_than=older_than, limit=1000)


# The drivers that got an offer from a search of the last day; the newest searches only.
_OFFERED = (
    "SELECT s.id AS search_id, s.ride_id, s.round, s.radius_meters, (one->>'offer_id')::uuid AS offer_id,"  # noqa: S608
    "   (one->>'driver_id')::uuid AS driver_id, (one->>'distance_meters')::integer AS distance_meters"
    " FROM (SELECT * FROM matching_searches"
    "   WHERE outcome = 'asked' AND at > clock_timestamp() - interval '1 day'"
    f"  ORDER BY at DESC LIMIT {CHECKED_EVENTS}) AS s CROSS JOIN jsonb_array_elements(s.seen) AS one"
    " WHERE one->>'verdict' = 'offered'"
)

INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="searches can be read",
        sentence="A constraint refuses searches whose verdicts or drivers would fail a list.",
        table="matching_searches",
        constraint="searches_can_be_read",
        definition=("jsonb_typeof(verdicts)", "jsonb_typeof(seen)"),
    ),
    TriggerHeld(
        name="search records never change",
        sentence="A row of matching_searches is never updated.",
        table="matching_searches",
        trigger="searches_never_change",
        definition=("BEFORE UPDATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    ConstraintHeld(
        name="a search without offers is repeated",
        sentence="Every search that made no offer has a planned next search.",
        table="matching_searches",
        constraint="who_asked_nobody_looks_again",
        definition=("outcome = 'asked'::text", "next_at IS NOT NULL"),
    ),
    Invariant(
        name="every recorded offer exists",
        sentence="Every offer in a search record exists, for the same ride, round and driver.",
        query=f"SELECT f.search_id FROM ({_OFFERED}) AS f WHERE NOT EXISTS (SELECT FROM ride_offers o"  # noqa: S608
        "   WHERE o.id = f.offer_id AND o.ride_id = f.ride_id AND o.round = f.round"
        "   AND o.driver_id = f.driver_id)",
    ),
    Invariant(
        name="no driver is asked again",
        sentence="A search makes no offer to a driver who refused the ride, did not answer or gave it up.",
        query=f"SELECT f.ride_id, f.driver_id FROM ({_OFFERED}) AS f JOIN ride_offers o ON o.id = f.offer_id"  # noqa: S608
        " WHERE EXISTS (SELECT FROM ride_offers p WHERE p.ride_id = o.ride_id AND p.driver_id = o.driver_id"
        "   AND p.attempt < o.attempt AND p.response IN ('REJECTED', 'EXPIRED', 'ACCEPTED'))",
    ),
    Invariant(
        name="no driver is asked from outside the radius",
        sentence="Every driver a search made an offer to was within its radius.",
        query=f"SELECT search_id FROM ({_OFFERED}) AS f WHERE distance_meters > radius_meters",  # noqa: S608
    ),
)
