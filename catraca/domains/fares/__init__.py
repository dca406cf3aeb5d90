"""Fares: what a ride costs."""

from catraca.domains.fares.model import (
    Place,
    Tariff,
    Trip,
    estimate_trip,
    fare_cents,
    straight_line_meters,
    tariff_with,
)
from catraca.domains.fares.schemas import Latitude, Longitude

__all__ = [
    "Latitude",
    "Longitude",
    "Place",
    "Tariff",
    "Trip",
    "estimate_trip",
    "fare_cents",
    "straight_line_meters",
    "tariff_with",
]
