"""Names and e-mail addresses: what is accepted, and in which form."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.platform.lines import EMAIL_PATTERN, clean_email, clean_name, fold_email


def test_names_are_trimmed_and_composed() -> None:
    assert clean_name("  Joa\u0303o ") == "João"
    assert clean_name("Nguyễn Thị Minh Khai") == "Nguyễn Thị Minh Khai"
    assert clean_name("山田 太郎") == "山田 太郎"
    assert clean_name("می\u200cخواهم") == "می\u200cخواهم", "the joiner is part of how Persian is written"


@pytest.mark.parametrize(
    "text", ["", "   ", "\u200b", "a\nb", "a\x00b", "a\x7fb", "a\u2028b", "evil\u202egnp.exe", "x" * 121]
)
def test_names_that_cannot_be_shown_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        clean_name(text)


def test_a_name_that_grows_when_composed_is_measured_afterwards() -> None:
    with pytest.raises(ValueError):
        clean_name("\u0958" * 120)


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_a_cleaned_name_is_stable_and_fits_the_database(text: str) -> None:
    try:
        cleaned = clean_name(text)
    except ValueError:
        return
    assert clean_name(cleaned) == cleaned
    assert 1 <= len(cleaned) <= 120
    assert unicodedata.is_normalized("NFC", cleaned)
    assert "\x00" not in cleaned


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_folding_is_stable_and_blind_to_case_and_form(text: str) -> None:
    folded = fold_email(text)
    assert fold_email(folded) == folded
    for form in ("NFC", "NFD"):
        assert fold_email(unicodedata.normalize(form, text)) == folded
    assert fold_email(text.casefold()) == folded


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
    assert fold_email(one) == fold_email(other)


@pytest.mark.parametrize(
    "email",
    ["ana@example.com", "a.b+c@sub.example.org", "joão@exemplo.com.br", "x@münchen.example", "o'x@a.bc"],
)
def test_addresses_are_taken_as_written(email: str) -> None:
    assert clean_email(email) == email


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
def test_malformed_address_is_refused(email: str) -> None:
    with pytest.raises(ValueError):
        clean_email(email)


@given(st.from_regex(EMAIL_PATTERN, fullmatch=True))
def test_accepted_address_fits_the_database_also_folded(email: str) -> None:
    try:
        cleaned = clean_email(email)
    except ValueError:
        return
    assert len(cleaned) <= 254
    assert len(fold_email(cleaned)) <= 254


@given(st.text(st.characters(max_codepoint=0x7F), max_size=60))
def test_plain_addresses_fold_as_all_others_do(text: str) -> None:
    folded = unicodedata.normalize("NFD", text).casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", folded).casefold()).strip()
    assert fold_email(text) == folded
