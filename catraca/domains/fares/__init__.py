"""Fares: the price of a ride."""

from catraca.domains.fares.model import Tariff, fare_cents, tariff_with

__all__ = ["Tariff", "fare_cents", "tariff_with"]
