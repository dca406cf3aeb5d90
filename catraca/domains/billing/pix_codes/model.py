"""The text of a static Pix code, as the central bank's manual for initiating a Pix has it ("BR Code").

The text is a list of fields: a number of two digits, a length of two digits, and a value. The last field is a
checksum of all before it. Written by hand: two libraries drop the leading zero of the checksum.
"""

import binascii
import unicodedata
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.billing.charges.model import ChargeId

CURRENCY = "BRL"
MAX_KEY, MAX_NAME, MAX_CITY = 77, 25, 15
REFERENCE_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Enough for any id, and the most that a code may have.
REFERENCE_LENGTH = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class PixReceiver:
    """Who receives the money: a Pix key, and the name and city that the passenger's bank shows."""

    key: str
    name: str
    city: str


@dataclass(frozen=True, slots=True)
class PixTerms:
    # None: the co-operative takes no Pix.
    receiver: PixReceiver | None


def br_code(receiver: PixReceiver, *, amount_cents: int, reference: str) -> str:
    """The text of the code; `reference` comes back on the receiver's bank statement."""
    account = _field(0, "br.gov.bcb.pix") + _field(1, receiver.key)
    text = "".join(
        (
            _field(0, "01"),
            _field(26, account),
            _field(52, "0000"),
            _field(53, "986"),
            _field(54, f"{amount_cents // 100}.{amount_cents % 100:02}"),
            _field(58, "BR"),
            _field(59, without_accents(receiver.name)),
            _field(60, without_accents(receiver.city)),
            _field(62, _field(5, reference)),
            # The checksum counts its own number and length.
            "6304",
        )
    )
    return f"{text}{binascii.crc_hqx(text.encode(), 0xFFFF):04X}"


def _field(number: int, value: str) -> str:
    if not 0 < len(value) < 100:
        raise ValueError(f"field {number} of a Pix code has 1 to 99 characters, not {len(value)}")
    return f"{number:02}{len(value):02}{value}"


def without_accents(text: str) -> str:
    """The text in ASCII, which is what all banks read."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def reference_of(charge_id: ChargeId) -> str:
    """The charge's id in letters and digits."""
    number, characters = charge_id.int, ""
    while number:
        number, place = divmod(number, len(REFERENCE_CHARACTERS))
        characters = REFERENCE_CHARACTERS[place] + characters
    return characters.rjust(REFERENCE_LENGTH, "0")


def charge_of(reference: str) -> ChargeId | None:
    """The charge of a reference, also in small letters; None if it is not one of ours."""
    if len(reference) != REFERENCE_LENGTH or not reference.isascii() or not reference.isalnum():
        return None
    number = int(reference, len(REFERENCE_CHARACTERS))
    return ChargeId(UUID(int=number)) if number < 1 << 128 else None
