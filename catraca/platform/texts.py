"""Texts for people, by language and key. They are files in `catraca/texts`."""

import tomllib
from collections.abc import Mapping
from datetime import datetime, tzinfo
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal

Language = Literal["pt-BR", "en"]
LANGUAGES: tuple[Language, ...] = ("pt-BR", "en")
DEFAULT_LANGUAGE: Language = "pt-BR"
METERS_IN_KM = 1000


@cache
def words(language: Language) -> Mapping[str, str]:
    """All texts of a language, flattened to dotted keys: `refusals.not_found`."""
    tables = tomllib.loads(files("catraca.texts").joinpath(f"{language}.toml").read_text("utf-8"))
    return {f"{table}.{key}": value for table, entries in tables.items() for key, value in entries.items()}


def text(key: str, language: Language, data: Mapping[str, object] | None = None) -> str:
    """The text for `key`. A test finds missing ones."""
    return words(language)[key].format_map(data or {})


def money(cents: int, currency: str, language: Language) -> str:
    """An amount in the language's format: R$ 25,50."""
    from babel.numbers import format_currency

    return _plain(format_currency(Decimal(cents) / 100, currency, locale=_locale(language)))


def distance(meters: float, language: Language) -> str:
    """A rounded distance in the language's format: 850 m, 1,2 km."""
    from babel.units import format_unit

    if meters < METERS_IN_KM - 5:
        return _plain(format_unit(round(meters, -1), "length-meter", "short", "#,##0", _locale(language)))
    km = round(meters / METERS_IN_KM, 1)
    return _plain(format_unit(km, "length-kilometer", "short", "#,##0.#", _locale(language)))


def span(seconds: float, language: Language) -> str:
    """A duration in whole minutes, at least one: 5 min."""
    from babel.units import format_unit

    minutes = max(1, round(seconds / 60))
    return _plain(format_unit(minutes, "duration-minute", "short", "#,##0", _locale(language)))


def local_moment(moment: datetime, zone: tzinfo, language: Language) -> str:
    """A local date and time: seg., 5 de jan., 14:00."""
    from babel.dates import format_skeleton, format_time

    day = format_skeleton("MMMEd", moment, tzinfo=zone, locale=_locale(language))
    return _plain(f"{day}, {format_time(moment, 'short', tzinfo=zone, locale=_locale(language))}")


def _locale(language: Language) -> str:
    return language.replace("-", "_")


def _plain(written: str) -> str:
    """With ordinary spaces instead of typographic ones, so that the text can be searched."""
    return written.replace("\u00a0", " ").replace("\u202f", " ")


@lru_cache(maxsize=256)
def negotiate(accept_language: str | None) -> Language:
    """The best of our languages for an `Accept-Language` header; pt-BR if it has none of them."""
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
