"""The Pix code of a charge."""

from dataclasses import dataclass
from uuid import UUID

import segno

from catraca.domains.billing.charges import store
from catraca.domains.billing.charges.errors import ChargeNotFound
from catraca.domains.billing.charges.model import Charge
from catraca.domains.billing.charges.service import read_charge
from catraca.domains.billing.pix_codes.errors import NothingDue, PixNotOffered
from catraca.domains.billing.pix_codes.model import CURRENCY, PixTerms, br_code, charge_of, reference_of
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True, kw_only=True)
class PixCode:
    charge: Charge
    reference: str
    # For copying, and the same as a picture.
    code: str
    qr_svg: str


async def read_pix_code(
    db: Db, ride_id: UUID, *, caller_id: UUID, sees_all: bool, terms: PixTerms
) -> PixCode:
    """A code for what is still due. The same charge has the same code until a part is paid."""
    charge = await read_charge(db, ride_id, caller_id=caller_id, sees_all=sees_all)
    if not charge.due_cents:
        raise NothingDue
    if terms.receiver is None or charge.currency != CURRENCY:
        raise PixNotOffered
    reference = reference_of(charge.id)
    code = br_code(terms.receiver, amount_cents=charge.due_cents, reference=reference)
    picture = segno.make_qr(code, error="m").svg_inline(scale=4, omitsize=True, title="Pix")
    return PixCode(charge=charge, reference=reference, code=code, qr_svg=picture)


async def find_charge(db: Db, reference: str) -> Charge:
    charge_id = charge_of(reference)
    charge = None if charge_id is None else await store.read_charge(db, charge_id)
    if charge is None:
        raise ChargeNotFound
    return charge
