"""Row locks on agendas, and names.

An agenda is changed with its subject's row locked. A transaction locks all rows that it needs in one
statement, ordered by `no`: so two transactions cannot deadlock.
"""

from collections.abc import Collection
from uuid import UUID

from catraca.domains.scheduling.shared.model import Names, ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db

# The rooms of services ($1), and a worker ($2), or all workers of the services.
SUBJECTS_OF_SERVICE = """
    SELECT subject_no FROM service_subjects WHERE service_id = ANY ($1::uuid[]) AND kind = 'room'
    UNION ALL SELECT no FROM subjects WHERE id = $2::uuid
    UNION ALL SELECT subject_no FROM service_subjects
      WHERE service_id = ANY ($1::uuid[]) AND kind = 'worker' AND $2::uuid IS NULL
"""


async def lock_subjects(db: Db, nos: Collection[SubjectNo]) -> None:
    await db.execute(
        "SELECT FROM subjects WHERE no = ANY ($1::int[]) ORDER BY no FOR NO KEY UPDATE", list(nos)
    )


async def lock_subject(db: Db, subject_id: SubjectId) -> SubjectNo | None:
    """None if there is no such worker or room."""
    return await db.fetchval("SELECT no FROM subjects WHERE id = $1 FOR NO KEY UPDATE", subject_id)


async def lock_for_services(
    db: Db, service_ids: Collection[ServiceId], worker_id: SubjectId | None = None
) -> None:
    """Lock every agenda that a booking may use: the worker's, or those of all workers, and the rooms'."""
    await db.execute(
        # An array is computed once; a join would scan all subjects.
        f"SELECT FROM subjects WHERE no = ANY (ARRAY({SUBJECTS_OF_SERVICE})) ORDER BY no FOR NO KEY UPDATE",
        list(service_ids),
        worker_id,
    )


async def read_names(db: Db, *, service_ids: Collection[UUID], subject_ids: Collection[UUID]) -> Names:
    """The names of the ids that exist."""
    rows = await db.fetch(
        """
        SELECT true AS is_service, id, name FROM services WHERE id = ANY ($1::uuid[])
        UNION ALL SELECT false, id, name FROM subjects WHERE id = ANY ($2::uuid[])
        """,
        list(service_ids),
        list(subject_ids),
    )
    return Names(
        services={row["id"]: row["name"] for row in rows if row["is_service"]},
        subjects={row["id"]: row["name"] for row in rows if not row["is_service"]},
    )
