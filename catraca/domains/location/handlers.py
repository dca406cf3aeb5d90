"""From where a driver on a ride is to the passenger who wants to see it; many at a time."""

from collections.abc import Mapping, Sequence

from catraca.domains.location.service.showing import Show, show_positions
from catraca.events import DriverUpdated
from catraca.platform.bus import Message
from catraca.platform.bus.batch_worker import BatchHandlers
from catraca.platform.bus.handlers import EventReader
from catraca.platform.database import Db
from catraca.platform.event import key_of

_reader = EventReader([DriverUpdated])


def tracking_handlers(show: Show) -> BatchHandlers[DriverUpdated]:
    """`show` is given what may be seen, and by whom."""

    async def write(db: Db, updates: Sequence[DriverUpdated]) -> Mapping[int, Exception]:
        await show_positions(db, updates, show)
        return {}

    return BatchHandlers(
        queue="tracking_realtime_queue", keys={key_of(DriverUpdated)}, prepare=_read, write=write
    )


async def _read(message: Message) -> DriverUpdated:
    return _reader.read(message)
