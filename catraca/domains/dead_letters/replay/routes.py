"""HTTP for edits, replays and discards of dead letters, operators only."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.dead_letters.letters.model import LetterId
from catraca.domains.dead_letters.letters.schemas import LetterOut
from catraca.domains.dead_letters.replay import service
from catraca.domains.dead_letters.replay.schemas import (
    BulkDiscardIn,
    DiscardIn,
    DiscardOut,
    NewBody,
    ReplayIn,
    ReplayOut,
)
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired


@dataclass(frozen=True, slots=True)
class ReplayParts:
    """What the API role passes to these routes."""

    targets: service.ReplayTargets


Parts = Annotated[ReplayParts, Depends(wired(ReplayParts))]

router = make_router(prefix="/v1/dead-letters", tags=["dead letters"], route_class=UnitOfWork)


@router.put("/{letter_id}/body", summary="Edit a dead letter", responses=problems(401, 403, 404, 413, 422))
async def edit_dead_letter(
    letter_id: UUID, body: NewBody, db: OpenDb, operator: Operator, parts: Parts
) -> LetterOut:
    """Replaces the body by one that the queue can read. A replay that has not left yet is withdrawn."""
    letter = await service.edit_letter(
        db, LetterId(letter_id), body.encoded(), targets=parts.targets, by=operator.id
    )
    return LetterOut.model_validate(letter)


@router.post(
    "/{letter_id}/replay", summary="Replay a dead letter", responses=problems(401, 403, 404, 409, 422)
)
async def replay_dead_letter(letter_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> LetterOut:
    """Sends the message again to the queue it died in. A message that was handled is not handled again."""
    letter = await service.replay_letter(db, LetterId(letter_id), targets=parts.targets, by=operator.id)
    return LetterOut.model_validate(letter)


@router.post("/replay", summary="Replay many dead letters", responses=problems(401, 403, 422))
async def replay_dead_letters(body: ReplayIn, db: OpenDb, operator: Operator, parts: Parts) -> ReplayOut:
    """Replays the letters of a filter at a limited rate. By default a dry run, which only counts."""
    outcome = await service.replay_letters(
        db,
        body.filter.to_filter(state=body.state),
        everything=body.filter.all,
        rate_per_second=body.rate_per_second,
        limit=body.limit,
        dry_run=body.dry_run,
        targets=parts.targets,
        by=operator.id,
    )
    return ReplayOut.of(outcome)


@router.post(
    "/{letter_id}/discard", summary="Discard a dead letter", responses=problems(401, 403, 404, 409, 422)
)
async def discard_dead_letter(
    letter_id: UUID, body: DiscardIn, db: OpenDb, operator: Operator, parts: Parts
) -> LetterOut:
    """Marks the letter as not to be replayed. It can be read until its retention ends."""
    letter = await service.discard_letter(
        db, LetterId(letter_id), reason=body.reason, targets=parts.targets, by=operator.id
    )
    return LetterOut.model_validate(letter)


@router.post("/discard", summary="Discard many dead letters", responses=problems(401, 403, 422))
async def discard_dead_letters(
    body: BulkDiscardIn, db: OpenDb, operator: Operator, parts: Parts
) -> DiscardOut:
    """Discards the waiting letters of a filter. By default a dry run, which only counts."""
    outcome = await service.discard_letters(
        db,
        body.filter.to_filter(),
        everything=body.filter.all,
        reason=body.reason,
        limit=body.limit,
        dry_run=body.dry_run,
        targets=parts.targets,
        by=operator.id,
    )
    return DiscardOut.of(outcome)
