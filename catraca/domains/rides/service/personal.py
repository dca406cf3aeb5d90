"""What is kept of people with their rides."""

from dataclasses import asdict

from catraca.domains.people import PersonalData, UserId
from catraca.domains.rides.errors import RideUnderWay
from catraca.domains.rides.model import MOVES
from catraca.domains.rides.store.attempts import forget_devices
from catraca.domains.rides.store.rides import active_ride_of, forget_addresses, rides_of, unfinished_ride_of
from catraca.platform.database import Db

RIDES_TOLD = 1000


async def _export(db: Db, user_id: UserId) -> object:
    """The person's rides, on either side; who the other party is, and where they live, is not theirs."""
    rides = await rides_of(db, user_id, statuses=tuple(MOVES), before=None, limit=RIDES_TOLD)
    others = ("passenger_id", "accepted_driver_id")
    seen = [ride if ride.passenger_id == user_id else ride.without_doors() for ride in rides]
    return [
        {name: value for name, value in asdict(ride).items() if name not in others or value == user_id}
        for ride in seen
    ]


async def _erase(db: Db, user_id: UserId) -> None:
    """What was written and what devices told. That a ride took place stays, as the accounts need it.

    Not while one is under way: somebody waits for this person.
    """
    driving = await active_ride_of(db, user_id)
    under_way = driving.id if driving else await unfinished_ride_of(db, user_id)
    if under_way is not None:
        raise RideUnderWay(ride_id=under_way)
    await forget_addresses(db, user_id)
    await forget_devices(db, user_id)


PERSONAL_DATA = PersonalData("rides", export=_export, erase=_erase)
