"""HTTP for stored dead letters, operators only."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends

from catraca.domains.dead_letters.letters import service
from catraca.domains.dead_letters.letters.model import Filter, LetterId, State
from catraca.domains.dead_letters.letters.schemas import FilterText, GroupsOut, LetterPage, OpenLetterOut
from catraca.platform.forms import Moment, PageCursor, PageLimit
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/dead-letters", tags=["dead letters"], route_class=UnitOfWork)


async def _filter(
    queue: FilterText | None = None,
    reason: FilterText | None = None,
    key: FilterText | None = None,
    state: State | Literal["any"] = "waiting",
    message_id: UUID | None = None,
    died_after: Moment | None = None,
    died_before: Moment | None = None,
) -> Filter:
    return Filter(
        state=None if state == "any" else state,
        queue=queue,
        reason=reason,
        key=key,
        message_id=message_id,
        died_after=died_after,
        died_before=died_before,
    )


@router.get("", summary="List dead letters", responses=problems(401, 403, 422))
async def list_dead_letters(
    db: OpenDb,
    operator: Operator,
    wanted: Annotated[Filter, Depends(_filter)],
    after: PageCursor = None,
    limit: PageLimit = 50,
) -> LetterPage:
    """Returns a page of messages that could not be handled, the newest first, with the shape of the body."""
    start = None if after is None else LetterId(after)
    return LetterPage.of(await service.find_letters(db, wanted, after=start, limit=limit + 1), limit=limit)


@router.get("/groups", summary="Count dead letters", responses=problems(401, 403))
async def group_dead_letters(db: OpenDb, operator: Operator) -> GroupsOut:
    """Returns the number of waiting letters by queue and reason."""
    return GroupsOut.of(await service.find_groups(db))


@router.get(
    "/{letter_id:uuid}",  # does not match /replay and /discard
    summary="Read a dead letter",
    responses=problems(401, 403, 404, 422),
)
async def read_dead_letter(letter_id: UUID, db: OpenDb, operator: Operator) -> OpenLetterOut:
    """Returns the letter with its whole body. The read is audited."""
    return OpenLetterOut.of(await service.open_letter(db, LetterId(letter_id), by=operator.id))
