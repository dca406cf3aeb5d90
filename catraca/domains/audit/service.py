"""Use cases on the audit log. Each takes an open transaction and never commits."""

from collections.abc import Sequence
from uuid import UUID

from catraca.domains.audit import store
from catraca.domains.audit.model import Entry, Filter
from catraca.domains.people import PersonalData, UserId
from catraca.platform.database import Db


async def find_entries(db: Db, wanted: Filter, *, before: UUID | None, limit: int) -> Sequence[Entry]:
    """The newest first, starting behind `before`."""
    return await store.find_entries(db, wanted, before=before, limit=limit)


async def _export(db: Db, user_id: UserId) -> object:
    return [dict(entry) for entry in await store.read_entries_about(db, "user", user_id)]


async def _erase(db: Db, user_id: UserId) -> None:
    """Entries about a user stay: they hold ids only."""


PERSONAL_DATA = PersonalData("audit", export=_export, erase=_erase)
