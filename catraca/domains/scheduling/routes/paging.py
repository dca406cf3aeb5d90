"""What the routes that list things take."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.model.agendas import SubjectId
from catraca.domains.scheduling.model.spans import Seconds

After = Annotated[UUID | None, Query(description="The previous page's `next`.")]
CURSOR = r"^\d{1,11}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
Cursor = Annotated[str | None, Query(pattern=CURSOR, description="The previous page's `next`.")]
Limit = Annotated[int, Query(ge=1, le=100)]
Retired = Annotated[bool, Query(description="The retired as well.")]


def read_cursor(cursor: str) -> tuple[Seconds, SubjectId]:
    """Behind which moment, and whose of that moment."""
    moment, own = cursor.split(".")
    return int(moment), SubjectId(UUID(own))
