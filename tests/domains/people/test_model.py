"""Names, addresses, plates and approvals, as pure functions."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.people import model
from catraca.domains.people.model import Driver, DriverChange

APPROVED = Driver(vehicle="Fiat Uno", plate="ABC1D23", home_community_id=None, approval="approved")


def name(text: str) -> str:
    return model.clean_line(text, max_characters=120)


def test_names_are_trimmed_and_composed() -> None:
    assert name("  Joa\u0303o ") == "João"
    assert name("Nguyễn Thị Minh Khai") == "Nguyễn Thị Minh Khai"
    assert name("山田 太郎") == "山田 太郎"
    assert name("می\u200cخواهم") == "می\u200cخواهم", "the joiner is part of how Persian is written"


@pytest.mark.parametrize(
    "text", ["", "   ", "\u200b", "a\nb", "a\x00b", "a\x7fb", "a\u2028b", "evil\u202egnp.exe", "x" * 121]
)
def test_names_that_cannot_be_shown_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        name(text)


def test_a_name_that_grows_when_composed_is_measured_afterwards() -> None:
    with pytest.raises(ValueError):
        name("\u0958" * 120)


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_a_cleaned_name_is_stable_and_fits_the_database(text: str) -> None:
    try:
        cleaned = name(text)
    except ValueError:
        return
    assert name(cleaned) == cleaned
    assert 1 <= len(cleaned) <= 120
    assert unicodedata.is_normalized("NFC", cleaned)
    assert "\x00" not in cleaned


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_folding_is_stable_and_blind_to_case_and_form(text: str) -> None:
    folded = model.fold_email(text)
    assert model.fold_email(folded) == folded
    for form in ("NFC", "NFD"):
        assert model.fold_email(unicodedata.normalize(form, text)) == folded
    assert model.fold_email(text.casefold()) == folded


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana@Example.COM", "ana@example.com"),
        ("STRASSE@example.com", "straße@example.com"),
        ("jose\u0301@example.com", "JOSÉ@example.com"),
        ("ａｎａ@example.com", "ana@example.com"),
    ],
)
def test_spellings_of_one_address_fold_together(one: str, other: str) -> None:
    assert model.fold_email(one) == model.fold_email(other)


@pytest.mark.parametrize(
    "email",
    ["ana@example.com", "a.b+c@sub.example.org", "joão@exemplo.com.br", "x@münchen.example", "o'x@a.bc"],
)
def test_addresses_are_taken_as_written(email: str) -> None:
    assert model.clean_email(email) == email


@pytest.mark.parametrize(
    "email",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "ana@localhost",
        "ana@@example.com",
        "a b@example.com",
        "ana@exa mple.com",
        "ana@-example.com",
        "ana@example..com",
        "ana@example.com\n",
        "a\u200bna@example.com",
        "<ana@example.com>",
        "a" * 65 + "@example.com",
        "a@" + "b" * 250 + ".com",
        "\ufdfa" * 60 + "@example.com",
    ],
)
def test_what_is_no_address_is_refused(email: str) -> None:
    with pytest.raises(ValueError):
        model.clean_email(email)


@given(st.from_regex(model.EMAIL_PATTERN, fullmatch=True))
def test_an_accepted_address_and_its_folded_form_fit_the_database(email: str) -> None:
    try:
        cleaned = model.clean_email(email)
    except ValueError:
        return
    assert len(cleaned) <= 254
    assert len(model.fold_email(cleaned)) <= 254


@pytest.mark.parametrize(
    ("text", "plate"),
    [("abc-1d23", "ABC1D23"), ("ABC 1234", "ABC1234"), ("AB.12.CD", "AB12CD"), ("1abc", "1ABC")],
)
def test_plates_are_kept_in_capitals_without_separators(text: str, plate: str) -> None:
    assert model.clean_plate(text) == plate


@pytest.mark.parametrize(
    "text", ["", "abc", "-ABC1234", "ABC--1234", "ABCDEFGHIJK", "straße1", "ABC1d23\n", "ABC_123"]
)
def test_what_is_no_plate_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        model.clean_plate(text)


@given(st.from_regex(model.PLATE_PATTERN, fullmatch=True))
def test_every_plate_taken_is_one_the_database_takes(text: str) -> None:
    assert re.fullmatch(r"[A-Z0-9]{4,10}", model.clean_plate(text))


@pytest.mark.parametrize("change", [DriverChange(vehicle="VW Gol"), DriverChange(plate="XYZ9876")])
def test_another_car_needs_approval_again_where_approval_is_required(change: DriverChange) -> None:
    assert model.changed_driver(APPROVED, change, rule="required").approval == "pending"
    assert model.changed_driver(APPROVED, change, rule="automatic").approval == "approved"


def test_the_same_car_or_another_community_keeps_the_approval() -> None:
    for change in (DriverChange(plate="ABC1D23"), DriverChange(home_community_id=None), DriverChange()):
        assert model.changed_driver(APPROVED, change, rule="required").approval == "approved"


def test_a_new_car_does_not_lift_a_suspension() -> None:
    suspended = Driver(vehicle=None, plate=None, home_community_id=None, approval="suspended")
    assert model.changed_driver(suspended, {"plate": "ABC1D23"}, rule="required").approval == "suspended"
