"""The outbox's own database."""

from tests.platform.database.outbox.conftest import database, its_own

__all__ = ["database", "its_own"]
