"""What services, workers and rooms are called."""

from collections.abc import Collection
from uuid import UUID

from catraca.domains.scheduling.model.agendas import Names
from catraca.platform.database import Db


async def names_of(db: Db, *, service_ids: Collection[UUID], subject_ids: Collection[UUID]) -> Names:
    """Of those that there are."""
    rows = await db.fetch(
        "SELECT true AS is_service, id, name FROM services WHERE id = ANY ($1::uuid[])"
        " UNION ALL SELECT false, id, name FROM subjects WHERE id = ANY ($2::uuid[])",
        list(service_ids),
        list(subject_ids),
    )
    return Names(
        services={row["id"]: row["name"] for row in rows if row["is_service"]},
        subjects={row["id"]: row["name"] for row in rows if not row["is_service"]},
    )
