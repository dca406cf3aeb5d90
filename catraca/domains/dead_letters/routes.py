"""HTTP for dead letters, operators only: translate, authorise, call one verb."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query

from catraca.domains.dead_letters import service
from catraca.domains.dead_letters.model import Filter, LetterId, State
from catraca.domains.dead_letters.schemas import (
    BulkDiscardIn,
    DiscardIn,
    DiscardOut,
    GroupsOut,
    LetterOut,
    LetterPage,
    Name,
    NewBody,
    OpenLetterOut,
    ReplayIn,
    ReplayOut,
)
from catraca.platform.forms import Moment
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired


@dataclass(frozen=True, slots=True)
class DeadLetterParts:
    """What the API's role hands to these routes: the queues that take replays."""

    duties: service.Duties


Parts = Annotated[DeadLetterParts, Depends(wired(DeadLetterParts))]
TAGS: list[str | Enum] = ["dead letters"]

router = make_router(prefix="/v1", route_class=UnitOfWork)


async def _filter(
    queue: Name | None = None,
    reason: Name | None = None,
    key: Name | None = None,
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


@router.get("/dead-letters", tags=TAGS, summary="List dead letters", responses=problems(401, 403, 422))
async def list_dead_letters(
    db: OpenDb,
    operator: Operator,
    wanted: Annotated[Filter, Depends(_filter)],
    after: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> LetterPage:
    """Answers what could not be handled, the newest first, a page at a time; of bodies only the shape."""
    start = None if after is None else LetterId(after)
    return LetterPage.of(await service.find_letters(db, wanted, after=start, limit=limit + 1), limit=limit)


@router.get("/dead-letters/groups", tags=TAGS, summary="Count dead letters", responses=problems(401, 403))
async def group_dead_letters(db: OpenDb, operator: Operator) -> GroupsOut:
    """Answers how many wait, by queue and reason: where to begin."""
    return GroupsOut.of(await service.find_groups(db))


@router.get(
    "/dead-letters/{letter_id:uuid}",  # so that it is not the address of `replay` and `discard`
    tags=TAGS,
    summary="Read a dead letter",
    responses=problems(401, 403, 404, 422),
)
async def read_dead_letter(letter_id: UUID, db: OpenDb, operator: Operator) -> OpenLetterOut:
    """Answers the letter with its whole body; the reading is audited."""
    return OpenLetterOut.of_open(await service.open_letter(db, LetterId(letter_id), by=operator.id))


@router.put(
    "/dead-letters/{letter_id}/body",
    tags=TAGS,
    summary="Mend a dead letter",
    responses=problems(401, 403, 404, 413, 422),
)
async def edit_dead_letter(
    letter_id: UUID, body: NewBody, db: OpenDb, operator: Operator, parts: Parts
) -> LetterOut:
    """Puts another body in its place, if its queue can read it; a replay that has not left is taken back."""
    letter = await service.edit_letter(
        db, LetterId(letter_id), body.encoded(), duties=parts.duties, by=operator.id
    )
    return LetterOut.of(letter)


@router.post(
    "/dead-letters/{letter_id}/replay",
    tags=TAGS,
    summary="Replay a dead letter",
    responses=problems(401, 403, 404, 409, 422),
)
async def replay_dead_letter(letter_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> LetterOut:
    """Sends it once more to the queue it died in, and to no other; what was handled is not handled again."""
    letter = await service.replay_letter(db, LetterId(letter_id), duties=parts.duties, by=operator.id)
    return LetterOut.of(letter)


@router.post(
    "/dead-letters/replay", tags=TAGS, summary="Replay many dead letters", responses=problems(401, 403, 422)
)
async def replay_dead_letters(body: ReplayIn, db: OpenDb, operator: Operator, parts: Parts) -> ReplayOut:
    """Replays what fits the filter, at most so many a second. Says what it would do, unless told to do it."""
    outcome = await service.replay_letters(
        db,
        body.filter.to_filter(state=body.state),
        everything=body.filter.all,
        rate_per_second=body.rate_per_second,
        limit=body.limit,
        dry_run=body.dry_run,
        duties=parts.duties,
        by=operator.id,
    )
    return ReplayOut.of(outcome)


@router.post(
    "/dead-letters/{letter_id}/discard",
    tags=TAGS,
    summary="Discard a dead letter",
    responses=problems(401, 403, 404, 409, 422),
)
async def discard_dead_letter(
    letter_id: UUID, body: DiscardIn, db: OpenDb, operator: Operator, parts: Parts
) -> LetterOut:
    """Says that nobody will replay it, and why; it can be seen until its retention ends."""
    letter = await service.discard_letter(
        db, LetterId(letter_id), reason=body.reason, duties=parts.duties, by=operator.id
    )
    return LetterOut.of(letter)


@router.post(
    "/dead-letters/discard", tags=TAGS, summary="Discard many dead letters", responses=problems(401, 403, 422)
)
async def discard_dead_letters(
    body: BulkDiscardIn, db: OpenDb, operator: Operator, parts: Parts
) -> DiscardOut:
    """Discards what waits and fits the filter. Says what it would do, unless told to do it."""
    outcome = await service.discard_letters(
        db,
        body.filter.to_filter(),
        everything=body.filter.all,
        reason=body.reason,
        limit=body.limit,
        dry_run=body.dry_run,
        duties=parts.duties,
        by=operator.id,
    )
    return DiscardOut.of(outcome)


ROUTERS = [router]
