"""Export and erasure of a person's rides."""

from dataclasses import asdict

from catraca.domains.people import PersonalData, UserId
from catraca.domains.rides.errors import RideUnderWay
from catraca.domains.rides.model import MOVES
from catraca.domains.rides.personal_data import store
from catraca.domains.rides.requests.store import unfinished_ride_of
from catraca.domains.rides.views.store import active_ride_of, rides_of
from catraca.platform.database import Db

RIDES_EXPORTED = 1000


async def _export(db: Db, user_id: UserId) -> object:
    """Return the person's rides as passenger or driver, without the other party's id and addresses."""
    rides = await rides_of(db, user_id, statuses=tuple(MOVES), before=None, limit=RIDES_EXPORTED)
    parties = ("passenger_id", "accepted_driver_id")
    shown = [ride if ride.passenger_id == user_id else ride.blurred() for ride in rides]
    return [
        {name: value for name, value in asdict(ride).items() if name not in parties or value == user_id}
        for ride in shown
    ]


async def _erase(db: Db, user_id: UserId) -> None:
    """Erase addresses, notes and device data; the rides stay for the accounts. Refused during a ride."""
    driving = await active_ride_of(db, user_id)
    under_way = driving.id if driving else await unfinished_ride_of(db, user_id)
    if under_way is not None:
        raise RideUnderWay(ride_id=under_way)
    await store.erase_addresses(db, user_id)
    await store.erase_devices(db, user_id)


PERSONAL_DATA = PersonalData("rides", export=_export, erase=_erase)
