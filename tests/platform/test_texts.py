"""Languages: any Accept-Language header gets one of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.platform.texts import LANGUAGES, negotiate, text, words


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "pt-BR"),
        ("", "pt-BR"),
        ("pt-BR", "pt-BR"),
        ("pt", "pt-BR"),
        ("PT-pt", "pt-BR"),
        ("en", "en"),
        ("EN-gb", "en"),
        ("en-GB,en;q=0.9", "en"),
        ("de-DE,de;q=0.9,en;q=0.8,pt;q=0.7", "en"),
        ("de, fr", "pt-BR"),
        ("*", "pt-BR"),
        ("en;q=0.1, pt;q=0.2", "pt-BR"),
        ("pt;q=0.1, en;q=0.2", "en"),
        ("en;q=0.5, pt;q=0.5", "en"),
        ("en;q=0", "pt-BR"),
        ("en;q=0, pt;q=0", "pt-BR"),
        ("en; q=0.3 , pt ;q=0.2", "en"),
        ("english", "pt-BR"),
        ("pt;q=nonsense, en;q=0.1", "en"),
        ("pt;q=nan, en;q=0.1", "en"),
        ("pt;q=inf, en;q=0.1", "en"),
        ("pt;q=-1, en;q=0.1", "en"),
        ("pt;q=2, en;q=0.1", "en"),
        (",,;;==", "pt-BR"),
        ("\x00\xff", "pt-BR"),
        ("x" * 100_000 + ",en", "pt-BR"),
    ],
)
def test_best_supported_language_is_chosen(header: str | None, language: str) -> None:
    assert negotiate(header) == language


@given(st.text(max_size=300) | st.from_regex(r"\A([a-zA-Z*-]{1,8}(;q=[0-9.]{1,5})?[, ]{0,2}){0,8}\Z"))
def test_any_header_gets_a_language(header: str) -> None:
    assert negotiate(header) in LANGUAGES


def test_texts_insert_their_data_unchanged() -> None:
    """Data is inserted once: braces in it are no placeholders."""
    for language in LANGUAGES:
        assert "{code} {0}" in text("refusals.body_malformed", language, {"reason": "{code} {0}"})


def test_texts_are_not_empty_and_differ_between_languages() -> None:
    portuguese, english = words("pt-BR"), words("en")
    for key, said in portuguese.items():
        assert said.strip() == said != ""
        assert said != english[key], f"{key} is not translated"
