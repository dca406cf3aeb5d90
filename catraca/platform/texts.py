"""The words people read, by language and key; the words themselves are data in `catraca/texts`."""

import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal

Language = Literal["pt-BR", "en"]
LANGUAGES: tuple[Language, ...] = ("pt-BR", "en")
DEFAULT_LANGUAGE: Language = "pt-BR"


@cache
def words(language: Language) -> Mapping[str, str]:
    """All texts of a language, flattened to dotted keys: `refusals.not_found`."""
    tables = tomllib.loads(files("catraca.texts").joinpath(f"{language}.toml").read_text("utf-8"))
    return {f"{table}.{key}": value for table, entries in tables.items() for key, value in entries.items()}


def text(key: str, language: Language, data: Mapping[str, object] | None = None) -> str:
    """The text for `key`; a missing one is a defect that the tidy test finds."""
    return words(language)[key].format_map(data or {})


@lru_cache(maxsize=256)
def negotiate(accept_language: str | None) -> Language:
    """The best language we have for an `Accept-Language` header; pt-BR when it names none of ours."""
    best: Language = DEFAULT_LANGUAGE
    best_weight = 0.0
    for part in (accept_language or "")[:200].split(","):
        name, _, parameters = part.strip().partition(";")
        weight = _weight(parameters)
        language = _ours(name.strip().lower())
        if language is not None and weight > best_weight:
            best, best_weight = language, weight
    return best


def _ours(name: str) -> Language | None:
    return next((ours for ours in LANGUAGES if name.split("-")[0] == ours.split("-")[0]), None)


def _weight(parameters: str) -> float:
    key, _, value = parameters.strip().partition("=")
    if key != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
