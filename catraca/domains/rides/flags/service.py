"""Flag rides for the operators, and review the flags."""

from uuid import UUID

import structlog

from catraca.domains.rides.errors import FlagNotFound
from catraca.domains.rides.flags import store
from catraca.domains.rides.flags.model import Flag, FlagId, FlagKind
from catraca.domains.rides.model import RideId
from catraca.events import RideFlagged
from catraca.platform.database import Db, audit, outbox
from catraca.platform.ids import new_id

log = structlog.get_logger()


async def flag_ride(
    db: Db, ride_id: RideId, kind: FlagKind, *, measured: int, allowed: int | None = None
) -> None:
    """Flag the ride once per kind; a repeat changes nothing. Publishes and logs a new flag."""
    flag = await store.insert_flag(db, FlagId(new_id()), ride_id, kind, measured=measured, allowed=allowed)
    if flag is None:
        return
    await outbox.record(
        db,
        RideFlagged(
            flag_id=flag.id,
            ride_id=ride_id,
            kind=kind,
            measured=measured,
            allowed=allowed,
            flagged_at=flag.flagged_at,
        ),
    )
    db.after_commit(lambda: log.warning("ride_flagged", ride_id=ride_id, flag=kind))


async def list_flags(
    db: Db, *, ride_id: UUID | None, only_open: bool, before: UUID | None, limit: int
) -> list[Flag]:
    """Return flags, newest first."""
    return await store.read_flags(db, ride_id=ride_id, only_open=only_open, before=before, limit=limit)


async def review_flag(db: Db, flag_id: FlagId, *, by: UUID) -> Flag:
    """Mark a flag as reviewed. A repeat returns the first review."""
    flag = await store.close_flag(db, flag_id, by=by)
    if flag is None:
        flag = await store.read_flag(db, flag_id)
        if flag is None:
            raise FlagNotFound
        return flag
    await audit.record(
        db,
        actor_id=by,
        action="ride.flag_reviewed",
        subject_kind="ride",
        subject_id=flag.ride_id,
        data={"flag_id": flag.id, "kind": flag.kind},
    )
    return flag
