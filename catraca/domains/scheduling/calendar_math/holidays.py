"""Public holidays by country and state, from the `holidays` library."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache


@dataclass(frozen=True, slots=True)
class Holidays:
    """The holidays of a place: ISO 3166 codes, such as BR and SP."""

    country: str
    state: str | None = None


@cache
def _states_by_country() -> Mapping[str, list[str]]:
    from holidays import list_supported_countries

    return list_supported_countries(include_aliases=True)


def is_known(place: Holidays) -> bool:
    states = _states_by_country().get(place.country)
    return states is not None and (place.state is None or place.state in states)


def holiday_on(place: Holidays, day: date, language: str | None = None) -> str | None:
    """The holiday's name, in `language` if the library has it, else in the country's; None on other days."""
    return _of_year(place, day.year, language).get(day)


@lru_cache(maxsize=1024)
def _of_year(place: Holidays, year: int, language: str | None) -> Mapping[date, str]:
    # Imported here: it loads slowly, and only workers with holidays need it.
    from holidays import country_holidays

    known = country_holidays(place.country, subdiv=place.state)
    # Without a language, the library takes the machine's.
    language = next(
        (one for one in known.supported_languages if language and one.startswith(language.replace("-", "_"))),
        known.default_language,
    )
    return dict(country_holidays(place.country, subdiv=place.state, years=year, language=language))
