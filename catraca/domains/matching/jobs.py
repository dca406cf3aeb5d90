"""What time does to a search."""

from uuid import UUID

from catraca.domains.matching.model import DriverNear
from catraca.domains.matching.service.advancing import MATCHING_DUE, Matcher
from catraca.domains.matching.service.waking import MATCHING_WAKE
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers


def matching_timers(matcher: Matcher) -> TimerHandlers:
    fires = TimerHandlers()

    @fires(MATCHING_DUE)
    async def go_on(db: Db, ride_id: UUID) -> None:
        await matcher.advance(db, ride_id)

    @fires(MATCHING_WAKE)
    async def look_at_once(db: Db, ride_id: UUID) -> None:
        await matcher.advance(db, ride_id, DriverNear)

    return fires
