"""Types of settings: how a variable's text becomes a value."""

import re
from datetime import timedelta
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from catraca.platform.http.rate_limits import RateLimit

DURATION_SHAPE = re.compile(r"\s*([0-9]{1,9})\s*([smhd]?)\s*")
FRACTION_SHAPE = re.compile(r"\s*[0-9]{1,6}\.[0-9]{1,6}\s*")
DURATION_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Group(BaseSettings):
    """The settings of one domain. The variable of a field is `CATRACA_` and the field's name."""

    model_config = SettingsConfigDict(
        env_prefix="CATRACA_", env_ignore_empty=True, extra="forbid", frozen=True, populate_by_name=True
    )


def is_loopback(host: str) -> bool:
    """True if only this machine can reach the host. Of names, only `localhost` is sure to be local."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def with_scheme(*schemes: str) -> AfterValidator:
    """Accept only addresses with one of these schemes."""

    def check(value: str) -> str:
        if not value.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            # Without the value: addresses hold passwords.
            raise ValueError(f"the address must begin with {schemes[0]}://")
        return value

    return AfterValidator(check)


def also_without_prefix(variable: str) -> AliasChoices:
    """Both names are read; if both are set, the one with the prefix counts."""
    return AliasChoices(f"CATRACA_{variable}", variable)


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = DURATION_SHAPE.fullmatch(value)
    if match is None:
        raise ValueError('a duration is seconds, as in "3600", or "15m", "1h", "7d"')
    return timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})


def _seconds(value: object) -> object:
    """A duration, or seconds with a fraction."""
    if isinstance(value, str) and FRACTION_SHAPE.fullmatch(value):
        return timedelta(seconds=float(value))
    return _duration(value)


def _rate(value: str) -> str:
    RateLimit.parse(value)
    return value


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_duration), Field(gt=timedelta(0), le=timedelta(days=3650))]
Seconds = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0), le=timedelta(days=1))]
# How long rows are kept: a day at least.
Retention = Annotated[Duration, Field(ge=timedelta(days=1))]
Rate = Annotated[str, AfterValidator(_rate)]
# For `Annotated[list[...], *COMMAS]`: a list whose items are separated by commas.
COMMAS = (NoDecode, BeforeValidator(_split))
