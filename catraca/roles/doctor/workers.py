"""Workers who cannot be booked, because this version does not know their time zone or holidays."""

import asyncpg

from catraca.domains import scheduling
from catraca.platform.database import Database
from catraca.platform.errors import Refusal
from catraca.roles.doctor.bus import LIMITS
from catraca.roles.doctor.findings import Finding, ok, warning
from catraca.settings import Settings

NAME = "Workers"
SHOWN = 5


async def check_workers(settings: Settings) -> list[Finding]:
    """Nothing if the database cannot be asked: other checks report that."""
    url = settings.servers.database_url
    if url is None:
        return []
    database = await Database.open(url, limits=LIMITS)
    try:
        async with database.connection() as db:
            unknown = await scheduling.find_workers_of_unknown_places(db)
    except (Refusal, asyncpg.UndefinedTableError):
        return []
    finally:
        await database.close()
    if not unknown:
        return [ok(NAME, "all time zones and holidays are known")]
    shown = ", ".join(str(one) for one in unknown[:SHOWN])
    return [
        warning(
            NAME,
            f"{len(unknown)} in a time zone, or with holidays, that this version does not know: {shown}",
            "Set their time zone and holidays again (PUT /v1/scheduling/workers/{id}). Until then they are"
            " not offered.",
        )
    ]
