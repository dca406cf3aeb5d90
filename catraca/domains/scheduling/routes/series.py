"""HTTP for series: translate, authorise, call one verb."""

from enum import Enum
from uuid import UUID

from catraca.domains.scheduling.model.agendas import Appointment, AppointmentId, Party
from catraca.domains.scheduling.routes.parties import client_of, party_of
from catraca.domains.scheduling.routes.turns import Parts, in_line
from catraca.domains.scheduling.schemas.booking import CancelIn
from catraca.domains.scheduling.schemas.series import SeriesBookedOut, SeriesIn, SeriesOut
from catraca.domains.scheduling.service import series as service
from catraca.domains.scheduling.store.series import read_series
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling/series", route_class=UnitOfWork)


@router.post(
    "",
    tags=TAGS,
    summary="Book a series",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
@within(in_line)
async def book_series(body: SeriesIn, db: OpenDb, caller: Caller, parts: Parts) -> SeriesBookedOut:
    """The same time every day, week or month, with one worker: all of it or nothing, or what can be."""
    booked = await service.book_series(
        db,
        body.to_wish(),
        body.to_rhythm(),
        await client_of(db, caller, body.client),
        skips=body.on_conflict == "skip",
        rules=parts.rules,
    )
    return SeriesBookedOut.of(booked)


@router.get("/{series_id:uuid}", tags=TAGS, summary="See a series", responses=problems(401, 404, 422))
async def get_series(series_id: UUID, db: OpenDb, caller: Caller) -> SeriesOut:
    """Whatever became of each; a worker sees those with themselves."""
    found = await _series_of(db, caller, series_id)
    return SeriesOut.of_those(series_id, [one for one, _ in found])


@router.post(
    "/{series_id:uuid}/cancel",
    tags=TAGS,
    summary="Cancel a series",
    responses=problems(401, 404, 409, 422),
)
@within(in_line)
async def cancel_series(
    series_id: UUID, db: OpenDb, caller: Caller, body: CancelIn | None = None
) -> SeriesOut:
    """Those that have not begun; their time is free again at once. Safe to repeat."""
    parties: dict[AppointmentId, Party] = {
        one.id: party for one, party in await _series_of(db, caller, series_id)
    }
    left = await service.cancel_series(db, series_id, parties, reason=body and body.reason)
    return SeriesOut.of_those(series_id, [one for one in left if one.id in parties])


async def _series_of(db: Db, caller: Principal, series_id: UUID) -> list[tuple[Appointment, Party]]:
    """Those of it that concern the caller, and as whom; to others there is no such series."""
    theirs: list[tuple[Appointment, Party]] = [
        (one, party) for one in await read_series(db, series_id) if (party := party_of(caller, one))
    ]
    if not theirs:
        raise NotFound
    return theirs
