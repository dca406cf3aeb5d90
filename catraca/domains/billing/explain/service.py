"""Tell what happened to a charge."""

from uuid import UUID

from catraca.domains.billing.charges.errors import ChargeNotFound
from catraca.domains.billing.charges.model import ChargeId
from catraca.domains.billing.charges.store import read_charge, read_charge_of_ride
from catraca.domains.billing.explain import store
from catraca.domains.billing.explain.model import Story
from catraca.domains.rides import RideId
from catraca.platform.database import Db


async def explain_charge(db: Db, wanted: UUID) -> Story:
    """`wanted` is the id of a charge or of its ride."""
    charge = await read_charge(db, ChargeId(wanted)) or await read_charge_of_ride(db, RideId(wanted))
    if charge is None:
        raise ChargeNotFound
    return Story(charge, await store.read_lines(db, charge.id))
