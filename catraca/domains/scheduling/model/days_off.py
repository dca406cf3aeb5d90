"""Public holidays by country and state, from the `holidays` library."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache


@dataclass(frozen=True, slots=True)
class Holidays:
    """Whose holidays: ISO 3166 codes, such as BR and SP."""

    country: str
    state: str | None = None


@cache
def _states_by_country() -> Mapping[str, list[str]]:
    from holidays import list_supported_countries

    return list_supported_countries(include_aliases=True)


def is_known(whose: Holidays) -> bool:
    states = _states_by_country().get(whose.country)
    return states is not None and (whose.state is None or whose.state in states)


def holiday_on(whose: Holidays, day: date, language: str | None = None) -> str | None:
    """What is celebrated, in this language if it is known, else in the country's; None on other days."""
    return _of_year(whose, day.year, language).get(day)


@lru_cache(maxsize=1024)
def _of_year(whose: Holidays, year: int, language: str | None) -> Mapping[date, str]:
    # Loading it takes longer than a start should; only workers with holidays need it.
    from holidays import country_holidays

    known = country_holidays(whose.country, subdiv=whose.state)
    # Left to itself, the library speaks the language of the machine it runs on.
    spoken = next(
        (one for one in known.supported_languages if language and one.startswith(language.replace("-", "_"))),
        known.default_language,
    )
    return dict(country_holidays(whose.country, subdiv=whose.state, years=year, language=spoken))
