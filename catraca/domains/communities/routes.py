"""HTTP for communities. Operators write them, all signed-in callers read them."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from catraca.domains.communities import service
from catraca.domains.communities.model import CommunityId
from catraca.domains.communities.schemas import (
    CommunitiesOut,
    CommunityChangeIn,
    CommunityIn,
    CommunityOut,
    CommunityPage,
    PlaceQuery,
    Version,
    VersionPage,
)
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired
from catraca.platform.ids import new_id
from catraca.platform.texts import Language, negotiate

# A fence may have half a megabyte.
MAX_WITH_FENCES = 20


@dataclass(frozen=True, slots=True)
class CommunityParts:
    """Values that the API role passes to these routes."""

    fences: service.Fences


async def _language(request: Request) -> Language:
    return negotiate(request.headers.get("accept-language"))


Parts = Annotated[CommunityParts, Depends(wired(CommunityParts))]
Speaking = Annotated[Language, Depends(_language)]
TAGS: list[str | Enum] = ["communities"]
ONE = "/communities/{community_id:uuid}"  # A plain parameter would match `at` as well.

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.post(
    "/communities",
    tags=TAGS,
    summary="Create a community",
    status_code=201,
    responses=problems(401, 403, 409, 413, 422),
)
async def create_community(
    body: CommunityIn, db: OpenDb, operator: Operator, language: Speaking
) -> CommunityOut:
    """Faults of the fence are in `faults`, each with its place, a code and a text."""
    fence = service.check_fence(body.fence, language=language)
    community_id = CommunityId(body.id or new_id())
    made = await service.create_community(db, community_id, body.to_rules(), fence, by=operator.id)
    return CommunityOut.of(made, fence)


@router.get("/communities", tags=TAGS, summary="List communities", responses=problems(401, 422))
async def list_communities(
    db: OpenDb,
    caller: Caller,
    after: PageCursor = None,
    limit: PageLimit = 50,
    retired: Annotated[bool, Query(description="Include retired communities.")] = False,
    fences: Annotated[
        bool, Query(description=f"Include fences; then a page has at most {MAX_WITH_FENCES}.")
    ] = False,
) -> CommunityPage:
    """Returns communities in the order of their ids."""
    most = min(limit, MAX_WITH_FENCES) if fences else limit
    found = await service.find_communities(db, after=after, limit=most + 1, retired=retired, fences=fences)
    return CommunityPage.of(found, limit=most)


@router.get(
    "/communities/at", tags=TAGS, summary="Find the communities of a place", responses=problems(401, 422)
)
async def find_communities_at(
    db: OpenDb,
    caller: Caller,
    parts: Parts,
    query: Annotated[PlaceQuery, Query()],
) -> CommunitiesOut:
    """Returns the communities that contain the place, edges included, smallest first; without fences."""
    index = await parts.fences.current(db)
    return CommunitiesOut(communities=[CommunityOut.of(found) for found in index.at(query.lat, query.lng)])


@router.get(ONE, tags=TAGS, summary="Read a community", responses=problems(401, 404, 422))
async def read_community(community_id: UUID, db: OpenDb, caller: Caller) -> CommunityOut:
    """Returns the community with its fence, retired or not."""
    return CommunityOut.of(*await service.get_community(db, community_id))


@router.put(ONE, tags=TAGS, summary="Change a community", responses=problems(401, 403, 404, 409, 413, 422))
async def change_community(
    community_id: UUID, body: CommunityChangeIn, db: OpenDb, operator: Operator, language: Speaking
) -> CommunityOut:
    """Replaces the community, as a new version. 409: it was changed after you read it.

    A retired community is in use again after a change.
    """
    fence = service.check_fence(body.fence, language=language)
    made = await service.change_community(
        db, CommunityId(community_id), body.to_rules(), fence, version=body.version, by=operator.id
    )
    return CommunityOut.of(made, fence)


@router.delete(ONE, tags=TAGS, summary="Retire a community", responses=problems(401, 403, 404, 409, 422))
async def retire_community(
    community_id: UUID,
    db: OpenDb,
    operator: Operator,
    version: Annotated[Version, Query(description="The version you read.")],
) -> CommunityOut:
    """Takes the community out of use, as a new version; nothing is deleted. Safe to repeat."""
    retired = await service.retire_community(db, CommunityId(community_id), version=version, by=operator.id)
    return CommunityOut.of(*retired)


@router.get(
    f"{ONE}/versions", tags=TAGS, summary="List a community's versions", responses=problems(401, 404, 422)
)
async def list_community_versions(
    community_id: UUID,
    db: OpenDb,
    caller: Caller,
    before: Annotated[Version | None, Query(description="The previous page's `next`.")] = None,
    limit: PageLimit = 50,
) -> VersionPage:
    """Returns the community's versions, newest first, without fences."""
    found = await service.find_versions(db, community_id, before=before, limit=limit + 1)
    return VersionPage.of(found, limit=limit)


@router.get(
    f"{ONE}/versions/{{version}}",
    tags=TAGS,
    summary="Read a community's version",
    responses=problems(401, 404, 422),
)
async def read_community_version(
    community_id: UUID, version: Version, db: OpenDb, caller: Caller
) -> CommunityOut:
    """Returns one version with its fence. A version never changes."""
    return CommunityOut.of(*await service.get_version(db, community_id, version))
