"""Route that explains a time."""

from uuid import UUID

from fastapi import Request

from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.explain import service
from catraca.domains.scheduling.explain.schemas import ExplanationOut
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.routes import TAGS, InZone
from catraca.domains.scheduling.shared.schemas import WholeMoment
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router
from catraca.platform.texts import negotiate, text

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.get(
    "/availability/explain",
    tags=TAGS,
    summary="Explain why a time is not free",
    responses=problems(401, 404, 422),
    response_model_exclude_none=True,
)
async def explain_slot(
    request: Request,
    db: OpenDb,
    caller: Caller,
    service_id: UUID,
    starts_at: WholeMoment,
    time_zone: InZone,
    worker_id: UUID | None = None,
) -> ExplanationOut:
    """Whether a time can be booked, worker by worker; if not, why, and the nearest free slots.

    The bookings that are in the way are shown to operators, and to workers about their own agenda.
    """
    language = negotiate(request.headers.get("accept-language"))
    found = await service.explain_time(
        db,
        ServiceId(service_id),
        worker_id=None if worker_id is None else SubjectId(worker_id),
        starts_at=starts_at,
        language=language,
        caller=caller,
    )
    return ExplanationOut.of(
        found,
        lambda code, data: text(f"scheduling.{code}", language, data),
        starts=to_seconds(starts_at),
        time_zone=time_zone,
    )
