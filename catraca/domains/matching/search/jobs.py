"""Timers of searches."""

from uuid import UUID

from catraca.domains.matching.search.model import DriverNearby
from catraca.domains.matching.search.service import MATCHING_DUE, MATCHING_WAKE, Matcher
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers


def matching_timers(matcher: Matcher) -> TimerHandlers:
    fires = TimerHandlers()

    @fires(MATCHING_DUE)
    async def advance(db: Db, ride_id: UUID) -> None:
        await matcher.advance_search(db, ride_id)

    @fires(MATCHING_WAKE)
    async def search_at_once(db: Db, ride_id: UUID) -> None:
        await matcher.advance_search(db, ride_id, DriverNearby)

    return fires
