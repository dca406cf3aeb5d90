"""Tariffs and fares, in whole cents."""

from dataclasses import dataclass, replace

from catraca.domains.communities import Prices
from catraca.platform.geo import Trip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A base price plus prices for distance and time, and at least the minimum."""

    base_cents: int
    per_km_cents: int
    per_minute_cents: int
    minimum_cents: int
    currency: str


def tariff_with(prices: Prices | None, general: Tariff) -> Tariff:
    """Replace the general prices by those of a community, if it has its own; the currency stays."""
    if prices is None:
        return general
    return replace(
        general,
        base_cents=prices.base_cents,
        per_km_cents=prices.per_km_cents,
        per_minute_cents=prices.per_minute_cents,
        minimum_cents=prices.minimum_cents,
    )


def fare_cents(tariff: Tariff, trip: Trip) -> int:
    """Return the fare, rounded once, at the end, half a cent up."""
    # In units of 1/60000 cent: a metre is a thousandth of a kilometre, a second a sixtieth of a minute.
    exact = (
        tariff.base_cents * 60_000
        + tariff.per_km_cents * trip.distance_meters * 60
        + tariff.per_minute_cents * trip.duration_seconds * 1000
    )
    return max(tariff.minimum_cents, (exact + 30_000) // 60_000)
