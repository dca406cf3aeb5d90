"""Licence plates, and which changes need a new approval."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.people.drivers import model
from catraca.domains.people.drivers.model import DriverChange
from catraca.domains.people.model import Driver

APPROVED = Driver(vehicle="Fiat Uno", plate="ABC1D23", home_community_id=None, approval="approved")


@pytest.mark.parametrize(
    ("text", "plate"),
    [("abc-1d23", "ABC1D23"), ("ABC 1234", "ABC1234"), ("AB.12.CD", "AB12CD"), ("1abc", "1ABC")],
)
def test_plates_are_stored_in_capitals_without_separators(text: str, plate: str) -> None:
    assert model.clean_plate(text) == plate


@pytest.mark.parametrize(
    "text", ["", "abc", "-ABC1234", "ABC--1234", "ABCDEFGHIJK", "straße1", "ABC1d23\n", "ABC_123"]
)
def test_invalid_plates_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        model.clean_plate(text)


@given(st.from_regex(model.PLATE_PATTERN, fullmatch=True))
def test_accepted_plates_fit_the_database(text: str) -> None:
    assert re.fullmatch(r"[A-Z0-9]{4,10}", model.clean_plate(text))


@pytest.mark.parametrize("change", [DriverChange(vehicle="VW Gol"), DriverChange(plate="XYZ9876")])
def test_another_car_needs_a_new_approval_if_required(change: DriverChange) -> None:
    assert model.changed_driver(APPROVED, change, rule="required").approval == "pending"
    assert model.changed_driver(APPROVED, change, rule="automatic").approval == "approved"


def test_same_car_or_another_home_keeps_the_approval() -> None:
    for change in (DriverChange(plate="ABC1D23"), DriverChange(home_community_id=None), DriverChange()):
        assert model.changed_driver(APPROVED, change, rule="required").approval == "approved"


def test_another_car_does_not_lift_a_suspension() -> None:
    suspended = Driver(vehicle=None, plate=None, home_community_id=None, approval="suspended")
    assert model.changed_driver(suspended, {"plate": "ABC1D23"}, rule="required").approval == "suspended"
