"""What happens to drivers at work by the passing of time. Each is a guarded change, told of once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from catraca.domains import rides
from catraca.domains.communities import EdgeRules
from catraca.domains.location.model import DriverId
from catraca.domains.location.store import presence
from catraca.domains.location.store.index import LastHeard
from catraca.events import DriverIdle, DriverOffline
from catraca.platform.database import Db, Row, outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How long is long."""

    # Without a ping: offline.
    presence_timeout: timedelta = timedelta(seconds=60)
    # Free: idle.
    idle_after: timedelta = timedelta(minutes=5)
    # Between two positions of one driver in PostgreSQL.
    position_interval: timedelta = timedelta(seconds=10)
    # Beyond the edge of a fence: crossed.
    edges: EdgeRules = field(default_factory=EdgeRules)


async def write_last_heard(
    db: Db, page: Sequence[Row], heard: Mapping[DriverId, LastHeard], *, rhythm: Rhythm
) -> None:
    """Bring to PostgreSQL what the map knows better, of those for whom it is time.

    A driver's first position is not waited for.
    """
    moves: list[presence.Move] = []
    silences: dict[DriverId, timedelta] = {}
    for row in page:
        known = heard.get(row["driver_id"])
        if known is None:
            continue
        written_at = row["position_at"]
        is_first = written_at is None and known.ping is not None
        if not is_first and row["silence"] - known.silence < rhythm.position_interval:
            continue
        if known.ping is not None and (written_at is None or known.ping.at > written_at):
            moves.append(presence.Move(row["driver_id"], known.ping, known.silence))
        else:
            silences[row["driver_id"]] = known.silence
    if moves:
        await presence.write_positions(db, moves)
    if silences:
        await presence.touch(db, silences)


async def expire_silent(db: Db, driver_ids: Iterable[DriverId], *, rhythm: Rhythm) -> set[DriverId]:
    """Put those offline of whom PostgreSQL, too, has heard nothing for long; told of once."""
    gone = await presence.expire(db, driver_ids, silent_for=rhythm.presence_timeout)
    await outbox.record(
        db,
        *(
            DriverOffline(driver_id=driver_id, reason="silent", timestamp=since)
            for driver_id, since in gone.items()
        ),
    )
    return set(gone)


@dataclass(frozen=True, slots=True)
class Working:
    """How many of some drivers are held by an offer or a ride, and how many have been free for long."""

    busy: int
    idle: int


async def note_work(db: Db, page: Sequence[Row], *, rhythm: Rhythm) -> Working:
    """Who has become busy, who free, and who has been free for long, of which each stretch is told once."""
    busy = await rides.busy_drivers(db, [row["driver_id"] for row in page])
    taken = [row for row in page if row["driver_id"] in busy and row["free_for"] is not None]
    freed = [row for row in page if row["driver_id"] not in busy and row["free_for"] is None]
    idle = [
        row
        for row in page
        if row["driver_id"] not in busy and (row["free_for"] or timedelta(0)) > rhythm.idle_after
    ]
    if taken:
        await presence.mark_busy(db, [row["driver_id"] for row in taken])
    if freed:
        await presence.mark_free(db, [row["driver_id"] for row in freed])
    if untold := [row["driver_id"] for row in idle if not row["idle_told"]]:
        news = await presence.mark_idle(db, untold, idle_after=rhythm.idle_after)
        await outbox.record(
            db, *(DriverIdle(driver_id=driver_id, free_since=since) for driver_id, since in news.items())
        )
    return Working(len(busy), len(idle))
