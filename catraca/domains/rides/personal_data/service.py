"""Export and erasure of a person's rides."""

from dataclasses import asdict
from datetime import timedelta

from catraca.domains.people import PersonalData, UserId
from catraca.domains.rides.errors import RideUnderWay
from catraca.domains.rides.model import MOVES
from catraca.domains.rides.personal_data import store
from catraca.domains.rides.requests.store import unfinished_ride_of
from catraca.domains.rides.views.store import active_ride_of, rides_of
from catraca.platform.database import Db, outbox

RIDES_EXPORTED = 1000
ATTEMPTS_EXPORTED = 1000


async def _export(db: Db, user_id: UserId) -> object:
    """Return the person's rides as passenger or driver, without the other party's id and addresses."""
    rides = await rides_of(db, user_id, statuses=tuple(MOVES), before=None, limit=RIDES_EXPORTED)
    parties = ("passenger_id", "accepted_driver_id")
    shown = [ride if ride.passenger_id == user_id else ride.blurred() for ride in rides]
    notes = await store.read_notes(db, user_id)
    return [
        {name: value for name, value in asdict(ride).items() if name not in parties or value == user_id}
        | {"cancel_note": notes.get(ride.id)}
        for ride in shown
    ]


async def _export_attempts(db: Db, user_id: UserId) -> object:
    return [dict(row) for row in await store.read_attempts(db, user_id, limit=ATTEMPTS_EXPORTED)]


async def erase_old_devices(db: Db, *, older_than: timedelta, limit: int = 1000) -> int:
    """Erase the device data of attempts older than their retention; return how many.

    Attempts at rides that have not ended stay longer, without device data.
    """
    return await store.erase_old_devices(db, older_than=older_than, limit=limit)


async def _erase(db: Db, user_id: UserId) -> None:
    """Erase addresses and notes, and round places; the rides stay for the accounts. Refused during a ride."""
    driving = await active_ride_of(db, user_id)
    under_way = driving.id if driving else await unfinished_ride_of(db, user_id)
    if under_way is not None:
        raise RideUnderWay(ride_id=under_way)
    await store.erase_passenger(db, user_id)
    await store.erase_notes(db, user_id)
    await outbox.round_places(db, await store.read_aggregates(db, user_id))


PERSONAL_DATA = PersonalData("rides", export=_export, erase=_erase)
ATTEMPT_DATA = PersonalData("ride_attempts", export=_export_attempts, erase=store.erase_devices)
