"""Queues in PostgreSQL."""

from catraca.platform.bus.postgres.bus import PostgresBus

__all__ = ["PostgresBus"]
