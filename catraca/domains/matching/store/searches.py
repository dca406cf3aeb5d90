"""Every statement on what searches saw: written once, never changed, and gone after its retention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import msgspec

from catraca.domains.location import Source
from catraca.platform.database import Db, Row
from catraca.platform.ids import new_id

PRUNED_AT_ONCE = 1000
# Asked, or why not: what location says of a driver, what was between the two before, and who was faster.
Verdict = Literal[
    "offered",
    "next",
    "asked_now",
    "driving",
    "held",
    "may_not_drive",
    "stale",
    "outside_fence",
    "refused_before",
    "silent_before",
    "gave_it_up",
    "own_ride",
    "too_far",
    "locked",
    "snatched",
]


# What led to a look: the round began, an offer ended, the wait was over, a driver came near, or the search
# before had nobody left to ask.
Cause = Literal["begun", "offer_ended", "due", "driver_near", "all_asked"]
# What it came to. Whoever was woken in vain waits on, as before.
Outcome = Literal["asked", "nobody_near", "all_asked", "snatched", "index_away", "waits_on"]


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A driver a search came across."""

    driver_id: UUID
    distance_meters: int
    verdict: Verdict
    offer_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    round: int
    search: int
    at: datetime
    radius_meters: int
    source: Source
    cause: Cause
    outcome: Outcome
    # When to look again, should nothing happen before.
    next_at: datetime | None
    # All who were seen, counted; and the nearest of them.
    verdicts: Mapping[Verdict, int]
    seen: Sequence[Seen]


COLUMNS = "round, search, at, radius_meters, source, cause, outcome, next_at, verdicts, seen"
_read_verdicts = msgspec.json.Decoder(dict[Verdict, int])
_read_seen = msgspec.json.Decoder(list[Seen])


async def insert_search(db: Db, ride_id: UUID, record: SearchRecord) -> None:
    await db.execute(
        f"INSERT INTO matching_searches (id, ride_id, {COLUMNS})"  # noqa: S608 - our own words
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::jsonb, $12::jsonb)",
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


async def read_searches(db: Db, ride_id: UUID, *, limit: int) -> list[SearchRecord]:
    """The ride's last looks, in the order they were taken."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM matching_searches WHERE ride_id = $1"  # noqa: S608 - our own words
        # Two looks of one moment are one search and the next.
        " ORDER BY at DESC, search DESC, id DESC LIMIT $2",
        ride_id,
        limit,
    )
    return [_record(row) for row in reversed(rows)]


def _record(row: Row) -> SearchRecord:
    told: dict[str, Any] = dict(row)
    told["verdicts"], told["seen"] = _read_verdicts.decode(row["verdicts"]), _read_seen.decode(row["seen"])
    return SearchRecord(**told)


async def prune_searches(db: Db, *, older_than: timedelta) -> int:
    """Remove what was written before that, a bounded number; answers how many."""
    return await db.fetchval(
        "WITH gone AS (DELETE FROM matching_searches WHERE ctid = ANY (ARRAY("
        "   SELECT ctid FROM matching_searches WHERE at < (SELECT clock_timestamp() - $1::interval)"
        "   ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )


async def last_search(db: Db, ride_id: UUID, round_number: int) -> tuple[int, int]:
    """The number of the round's last search, and how far out it looked."""
    row = await db.fetchrow(
        "SELECT search, radius_meters FROM matching_searches WHERE ride_id = $1 AND round = $2"
        " ORDER BY at DESC, search DESC LIMIT 1",
        ride_id,
        round_number,
    )
    return (0, 0) if row is None else (row["search"], row["radius_meters"])
