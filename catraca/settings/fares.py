"""The tariff of rides outside communities, and the currency of all fares."""

from pydantic import Field

from catraca.settings.values import Group


class FareSettings(Group):
    tariff_base_cents: int = Field(default=500, ge=0, le=1_000_000, description="Base price of every ride.")
    tariff_per_km_cents: int = Field(default=180, ge=0, le=1_000_000, description="Price of a kilometre.")
    tariff_per_minute_cents: int = Field(default=30, ge=0, le=1_000_000, description="Price of a minute.")
    tariff_minimum_cents: int = Field(default=800, ge=0, le=10_000_000, description="Lowest price of a ride.")
    currency: str = Field(
        default="BRL", pattern="^[A-Z]{3}$", description="ISO 4217; fares are in its cents."
    )
