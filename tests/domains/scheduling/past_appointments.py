"""Past appointments: booked in the future and then moved back in time."""

from uuid import UUID

from tests.domains.scheduling.clinic import Clinic


async def move_back(clinic: Clinic, appointment_id: object, *, days: int) -> None:
    """Move the appointment and its claim `days` days back."""
    one = UUID(str(appointment_id))
    async with clinic.parts.database.transaction() as db:
        await db.execute("SET CONSTRAINTS ALL DEFERRED")
        await db.execute(
            "UPDATE claims c SET starts_at = c.starts_at - $2 * interval '1 day',"
            " ends_at = c.ends_at - $2 * interval '1 day', begins_at = c.begins_at - $2 * interval '1 day',"
            " finishes_at = c.finishes_at - $2 * interval '1 day'"
            " FROM appointments a WHERE a.id = $1 AND c.id = a.session_id",
            one,
            days,
        )
        await db.execute(
            "UPDATE appointments SET starts_at = starts_at - $2 * interval '1 day',"
            " ends_at = ends_at - $2 * interval '1 day' WHERE id = $1",
            one,
            days,
        )
