"""Pix codes: read by an independent reader, with a right checksum, for what is due."""

import random
import re
import string
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.billing.charges.model import ChargeId
from catraca.domains.billing.pix_codes.model import PixReceiver, br_code, charge_of, reference_of
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.billing.till import Till
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts

KEY = "7d9f0335-8dcc-4054-9bf9-0dbd61d36906"
PIX = {"pix_key": KEY, "pix_name": "Cooperativa São João", "pix_city": "Belém"}
VISIBLE = string.ascii_letters + string.digits + string.punctuation


def _remainder(byte: int) -> int:
    value = byte << 8
    for _ in range(8):
        value = ((value << 1) ^ (0x1021 if value & 0x8000 else 0)) & 0xFFFF
    return value


REMAINDERS = [_remainder(byte) for byte in range(256)]


def checksum(text: str) -> str:
    """CRC-16/CCITT-FALSE in four hexadecimal digits, without the function that the product uses."""
    register = 0xFFFF
    for byte in text.encode():
        register = (register << 8 & 0xFFFF) ^ REMAINDERS[register >> 8 ^ byte]
    return f"{register:04X}"


def fields_of(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    while text:
        number, length = text[:2], int(text[2:4])
        assert number not in fields
        fields[number], text = text[4 : 4 + length], text[4 + length :]
    return fields


def read(code: str) -> tuple[str, str, str, int, str]:
    """Key, name, city, cents and reference, as a bank reads them."""
    assert code[-8:-4] == "6304"
    assert code[-4:] == checksum(code[:-4])
    fields = fields_of(code)
    assert list(fields) == ["00", "26", "52", "53", "54", "58", "59", "60", "62", "63"]
    assert (fields["00"], fields["53"], fields["58"]) == ("01", "986", "BR")
    account = fields_of(fields["26"])
    assert account["00"] == "br.gov.bcb.pix"
    assert re.fullmatch(r"[0-9]+\.[0-9]{2}", fields["54"])
    cents = int(fields["54"].replace(".", ""))
    return account["01"], fields["59"], fields["60"], cents, fields_of(fields["62"])["05"]


def test_code_of_the_banks_manual() -> None:
    """The example without an amount, of the manual for initiating a Pix, with our fields added by hand."""
    receiver = PixReceiver(key="123e4567-e12b-12d1-a456-426655440000", name="Fulano de Tal", city="BRASILIA")
    code = br_code(receiver, amount_cents=1, reference="***")
    head = (
        "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-426655440000"
        "52040000530398654040.015802BR5913Fulano de Tal6008BRASILIA62070503***6304"
    )
    assert code[:-4] == head
    assert read(code)[3:] == (1, "***")


def test_checksum_of_the_banks_manual() -> None:
    """So that the reader of these tests is right too."""
    text = (
        "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-426655440000"
        "5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***6304"
    )
    assert checksum(text) == "1D3D"


@given(
    st.text(VISIBLE, min_size=1, max_size=77),
    st.text(VISIBLE + " ", min_size=1, max_size=25),
    st.text(VISIBLE + " ", min_size=1, max_size=15),
    st.integers(min_value=1, max_value=10**11),
    st.uuids(),
)
def test_codes_are_read_as_they_were_written(
    key: str, name: str, city: str, cents: int, charge_id: UUID
) -> None:
    reference = reference_of(ChargeId(charge_id))
    receiver = PixReceiver(key=key, name=name, city=city)
    assert read(br_code(receiver, amount_cents=cents, reference=reference)) == (
        key,
        name,
        city,
        cents,
        reference,
    )


def test_checksums_of_100_000_codes() -> None:
    dice = random.Random(20)
    with_leading_zero = 0
    for _ in range(100_000):
        receiver = PixReceiver(key="".join(dice.choices(VISIBLE, k=8)), name="A", city="B")
        code = br_code(receiver, amount_cents=dice.randrange(1, 10**6), reference="X")
        assert code[-4:] == checksum(code[:-4])
        with_leading_zero += code[-4] == "0"
    assert with_leading_zero > 5000


@given(st.uuids())
def test_reference_names_its_charge(charge_id: UUID) -> None:
    reference = reference_of(ChargeId(charge_id))
    assert re.fullmatch("[0-9A-Z]{25}", reference)
    assert charge_of(reference) == charge_of(reference.lower()) == charge_id


@pytest.mark.parametrize("reference", ["", "x", "Z" * 25, "é" * 25, " " * 25, "0" * 24 + "-", "0" * 26])
def test_other_references_have_no_charge(reference: str) -> None:
    assert charge_of(reference) is None


def test_accents_are_left_out() -> None:
    receiver = PixReceiver(key=KEY, name="Cooperativa São João", city="Belém")
    assert read(br_code(receiver, amount_cents=1, reference="X"))[1:3] == ("Cooperativa Sao Joao", "Belem")


@pytest.fixture
async def pix_till(stack: Stack, settings: Settings) -> AsyncIterator[Till]:
    async with (
        own_parts(stack, settings, offers_at_once=0, **PIX) as parts,
        served(parts) as serving,
        serving.client() as api,
    ):
        yield Till(api, parts.database)


async def code_of(till: Till, ride_id: UUID, headers: dict[str, str]) -> dict[str, object]:
    answer = await till.api.get(f"/v1/rides/{ride_id}/charge/pix", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_code_is_for_what_is_due(pix_till: Till) -> None:
    passenger_id = uuid4()
    ride_id, driver_id = await pix_till.completed(passenger_id)
    await pix_till.charge(ride_id)
    charge = await pix_till.charge_row(ride_id)
    fare, path = charge["amount_cents"], f"/v1/charges/{charge['id']}/captures"
    reference = reference_of(charge["id"])
    for due in (fare, fare - 30):
        codes = [
            await code_of(pix_till, ride_id, headers)
            for headers in (bearer("passenger", passenger_id), bearer("driver", driver_id), pix_till.operator)
        ]
        assert codes[0] == codes[1] == codes[2]
        assert codes[0]["amount_cents"] == due
        assert read(str(codes[0]["code"])) == (KEY, "Cooperativa Sao Joao", "Belem", due, reference)
        assert str(codes[0]["qr_svg"]).startswith("<svg")
        body = {"reference": f"E{uuid4().hex}"[:32], "amount_cents": 30}
        assert (await pix_till.api.post(path, headers=pix_till.operator, json=body)).status_code == 201
    found = await pix_till.api.get(f"/v1/pix-codes/{reference.lower()}/charge", headers=pix_till.operator)
    assert found.json()["charge_id"] == str(charge["id"])
    body = {"reference": f"E{uuid4().hex}"[:32], "amount_cents": fare}
    await pix_till.api.post(path, headers=pix_till.operator, json=body)
    answer = await pix_till.api.get(f"/v1/rides/{ride_id}/charge/pix", headers=pix_till.operator)
    assert (answer.status_code, answer.json()["code"]) == (409, "nothing_due")


async def test_strangers_get_no_code(pix_till: Till) -> None:
    ride_id, _ = await pix_till.charged()
    for stranger in (bearer("passenger"), bearer("driver", await pix_till.new_driver())):
        answer = await pix_till.api.get(f"/v1/rides/{ride_id}/charge/pix", headers=stranger)
        assert (answer.status_code, answer.json()["code"]) == (404, "charge_not_found")


async def test_without_a_key_there_is_no_code(till: Till) -> None:
    ride_id, _ = await till.charged()
    answer = await till.api.get(f"/v1/rides/{ride_id}/charge/pix", headers=till.operator)
    assert (answer.status_code, answer.json()["code"]) == (404, "pix_not_offered")


async def test_unknown_reference_is_not_found(till: Till) -> None:
    for reference in ("x", reference_of(ChargeId(uuid4()))):
        answer = await till.api.get(f"/v1/pix-codes/{reference}/charge", headers=till.operator)
        assert (answer.status_code, answer.json()["code"]) == (404, "charge_not_found")
