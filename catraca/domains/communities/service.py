"""Create, change, import and find communities."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from catraca.domains.communities import polygons, store
from catraca.domains.communities.errors import (
    CommunityChanged,
    CommunityExists,
    CommunityNotFound,
    FenceInvalid,
    NeighbourIsItself,
    NeighbourUnknown,
)
from catraca.domains.communities.model import Community, CommunityId, FenceIndex, Rules
from catraca.platform.database import Db, audit
from catraca.platform.texts import Language, text


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityDraft:
    """A community as a file describes it; the fence is valid GeoJSON."""

    id: CommunityId
    rules: Rules
    fence: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    outcome: Literal["created", "changed", "unchanged"]
    # After the import, also if it is a dry run.
    version: int


def check_fence(fence: object, *, language: Language) -> str:
    """Return the fence as it is stored; raises `FenceInvalid` with faults in this language."""
    try:
        return polygons.read_fence(fence)
    except polygons.FenceFaulty as faulty:
        faults = [
            {"where": one.where, "code": one.code, "message": text(f"fences.{one.code}", language, one.data)}
            for one in faulty.faults
        ]
        raise FenceInvalid(faults=faults) from faulty


async def create_community(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, by: UUID | None
) -> Community:
    """Create a community; `fence` is the result of `check_fence`."""
    created = await _insert_version(db, community_id, rules, fence, version=1)
    if created is None:
        raise CommunityExists
    await _audit(db, created, by)
    return created


async def change_community(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, version: int, by: UUID | None
) -> Community:
    """Insert the version after `version`; raises `CommunityChanged` if that is not the present one."""
    changed = await _insert_version(db, community_id, rules, fence, version=version + 1)
    if changed is None:
        known = await store.read_community(db, community_id)
        if known is None:
            raise CommunityNotFound
        raise CommunityChanged(version=known[0].version)
    await _audit(db, changed, by)
    return changed


async def retire_community(
    db: Db, community_id: CommunityId, *, version: int, by: UUID
) -> tuple[Community, str]:
    """Take the community out of use, as a new version. A retired community stays as it is."""
    known, fence = await get_community(db, community_id)
    if known.rules.retired:
        return known, fence
    rules = replace(known.rules, retired=True)
    return await change_community(db, community_id, rules, fence, version=version, by=by), fence


async def import_communities(
    db: Db, drafts: Sequence[CommunityDraft], *, by: UUID | None, dry_run: bool, on_each: Callable[[], object]
) -> list[ImportResult]:
    """Create and change communities to match their drafts, all or none. A repeat changes nothing.

    Drafts may be neighbours of each other in any order. `on_each` is called after each draft.
    """
    # First, because it makes other changes wait: nothing changes between the comparison and the write.
    revision = 0 if dry_run else await store.next_revision(db)
    known = await store.communities_among(db, [draft.id for draft in drafts])
    named = {neighbour for draft in drafts for neighbour in draft.rules.neighbour_ids}
    await _refuse_unknown(db, named - {draft.id for draft in drafts})
    results: list[ImportResult] = []
    for draft in drafts:
        result = _compare(draft, known.get(draft.id))
        results.append(result)
        if result.outcome != "unchanged" and not dry_run:
            written = await store.insert_version(
                db, draft.id, draft.rules, draft.fence, version=result.version, revision=revision
            )
            assert written is not None
            await _audit(db, written, by, details={"by": "command line"})
        on_each()
    return results


def _compare(draft: CommunityDraft, known: tuple[Community, str] | None) -> ImportResult:
    if known is None:
        return ImportResult("created", 1)
    community, fence = known
    if (community.rules, polygons.normalized(fence)) == (draft.rules, draft.fence):
        return ImportResult("unchanged", community.version)
    return ImportResult("changed", community.version + 1)


async def get_community(db: Db, community_id: UUID) -> tuple[Community, str]:
    """The community with its fence, retired or not."""
    known = await store.read_community(db, community_id)
    if known is None:
        raise CommunityNotFound
    return known


async def get_version(db: Db, community_id: UUID, version: int) -> tuple[Community, str]:
    """A version of the community with its fence."""
    known = await store.read_version(db, community_id, version)
    fence = await store.read_version_fence(db, community_id, version)
    if known is None or fence is None:
        raise CommunityNotFound
    return known, fence


async def read_community_version(db: Db, community_id: UUID, version: int) -> Community:
    """A version that a ride or a confirmation refers to by a foreign key."""
    known = await store.read_version(db, community_id, version)
    assert known is not None, "versions are never deleted"
    return known


async def find_versions(db: Db, community_id: UUID, *, before: int | None, limit: int) -> Sequence[Community]:
    """The community's versions, newest first."""
    if not await store.known_among(db, [community_id]):
        raise CommunityNotFound
    return await store.versions_of(db, community_id, before=before, limit=limit)


async def find_communities(
    db: Db, *, after: UUID | None, limit: int, retired: bool, fences: bool
) -> Sequence[tuple[Community, str | None]]:
    return await store.communities_page(db, after=after, limit=limit, retired=retired, fences=fences)


async def all_communities(db: Db) -> Sequence[tuple[Community, str]]:
    """All communities with their fences, retired ones included, in one snapshot."""
    return sorted(await store.changed_since(db, 0), key=lambda found: found[0].id)


async def _insert_version(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, version: int
) -> Community | None:
    if community_id in rules.neighbour_ids:
        raise NeighbourIsItself
    await _refuse_unknown(db, rules.neighbour_ids)
    revision = await store.next_revision(db)
    return await store.insert_version(db, community_id, rules, fence, version=version, revision=revision)


async def _refuse_unknown(db: Db, neighbour_ids: Iterable[CommunityId]) -> None:
    unknown = set(neighbour_ids) - await store.known_among(db, neighbour_ids)
    if unknown:
        raise NeighbourUnknown(neighbour_ids=sorted(unknown))


async def _audit(
    db: Db, community: Community, by: UUID | None, *, details: dict[str, object] | None = None
) -> None:
    change = "created" if community.version == 1 else "changed"
    await audit.record(
        db,
        actor_id=by,
        action=f"community.{'retired' if community.rules.retired else change}",
        subject_kind="community",
        subject_id=community.id,
        data={"version": community.version, **(details or {})},
    )


class Fences:
    """This process's index of all fences, updated whenever it is read.

    Not for a transaction that changes communities: a rollback would leave its change in the index.
    """

    def __init__(self) -> None:
        self._revision = 0
        self._index = FenceIndex({})
        self._loading = asyncio.Lock()

    async def version(self, db: Db, community_id: CommunityId, version: int) -> Community:
        """Like `read_community_version`, from memory if it is there: versions never change."""
        fence = self._index.get(community_id)
        if fence is not None and fence.community.version == version:
            return fence.community
        return await read_community_version(db, community_id, version)

    async def current(self, db: Db) -> FenceIndex:
        """The present index: one short query, and the fences that changed since the last call."""
        revision = await store.current_revision(db)
        if revision <= self._revision:
            return self._index
        # One update at a time, in a thread: ten thousand fences take long.
        async with self._loading:
            if revision > self._revision:
                changed = await store.changed_since(db, self._revision)
                self._index = await asyncio.to_thread(self._index.with_changes, changed)
                self._revision = revision
            return self._index
