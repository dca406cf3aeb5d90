"""Making, changing and finding communities."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from catraca.domains.communities import store
from catraca.domains.communities.errors import (
    CommunityChanged,
    CommunityExists,
    CommunityNotFound,
    FenceInvalid,
    NeighbourIsItself,
    NeighbourUnknown,
)
from catraca.domains.communities.model import rings
from catraca.domains.communities.model.community import Community, CommunityId, Rules
from catraca.domains.communities.model.fences import FenceIndex
from catraca.platform.database import Db, audit
from catraca.platform.texts import Language, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody's file says of a community; the fence was found to be one."""

    id: CommunityId
    rules: Rules
    fence: str


@dataclass(frozen=True, slots=True)
class Imported:
    what: Literal["created", "changed", "unchanged"]
    # The one it is at now, or would be.
    version: int


def check_fence(fence: object, *, language: Language) -> str:
    """The fence as it is kept; refused with where and why, in the reader's words."""
    try:
        return rings.read_fence(fence)
    except rings.FenceFaulty as faulty:
        faults = [
            {"where": one.where, "code": one.code, "message": text(f"fences.{one.code}", language, one.data)}
            for one in faulty.faults
        ]
        raise FenceInvalid(faults=faults) from faulty


async def create_community(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, by: UUID | None
) -> Community:
    """A new community; `fence` is GeoJSON that was found to be one."""
    made = await _write(db, community_id, rules, fence, version=1)
    if made is None:
        raise CommunityExists
    await _record(db, made, by)
    return made


async def change_community(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, version: int, by: UUID | None
) -> Community:
    """A new version of what was `version`; refused when somebody else has changed it since."""
    made = await _write(db, community_id, rules, fence, version=version + 1)
    if made is None:
        known = await store.read_community(db, community_id)
        if known is None:
            raise CommunityNotFound
        raise CommunityChanged(version=known[0].version)
    await _record(db, made, by)
    return made


async def retire_community(
    db: Db, community_id: CommunityId, *, version: int, by: UUID
) -> tuple[Community, str]:
    """Nobody is in it from now on, and nothing of it is lost. What is retired stays as it is."""
    known, fence = await get_community(db, community_id)
    if known.rules.retired:
        return known, fence
    rules = replace(known.rules, retired=True)
    return await change_community(db, community_id, rules, fence, version=version, by=by), fence


async def import_communities(
    db: Db, wanted: Sequence[Wanted], *, by: UUID | None, dry_run: bool, tell: Callable[[], object]
) -> list[Imported]:
    """Make each community what is said of it, all or none. Repeating it changes nothing.

    They may be each other's neighbours in any order. `tell` is called after each of them.
    """
    # First, so that nobody changes what is compared; others wait.
    revision = 0 if dry_run else await store.next_revision(db)
    known = await store.communities_among(db, [one.id for one in wanted])
    named = {neighbour for one in wanted for neighbour in one.rules.neighbour_ids}
    await _refuse_strangers(db, named - {one.id for one in wanted})
    done: list[Imported] = []
    for one in wanted:
        done.append(_difference(one, known.get(one.id)))
        if done[-1].what != "unchanged" and not dry_run:
            version = done[-1].version
            made = await store.insert_version(
                db, one.id, one.rules, one.fence, version=version, revision=revision
            )
            assert made is not None
            await _record(db, made, by, told={"by": "command line"})
        tell()
    return done


def _difference(wanted: Wanted, known: tuple[Community, str] | None) -> Imported:
    if known is None:
        return Imported("created", 1)
    community, fence = known
    if (community.rules, rings.as_kept(fence)) == (wanted.rules, wanted.fence):
        return Imported("unchanged", community.version)
    return Imported("changed", community.version + 1)


async def get_community(db: Db, community_id: UUID) -> tuple[Community, str]:
    """The community with its fence, retired or not."""
    known = await store.read_community(db, community_id)
    if known is None:
        raise CommunityNotFound
    return known


async def get_version(db: Db, community_id: UUID, version: int) -> tuple[Community, str]:
    """What the community was, with the fence it had."""
    known = await store.read_version(db, community_id, version)
    fence = await store.read_version_fence(db, community_id, version)
    if known is None or fence is None:
        raise CommunityNotFound
    return known, fence


async def find_versions(db: Db, community_id: UUID, *, before: int | None, limit: int) -> Sequence[Community]:
    """What the community was, the newest first."""
    if not await store.known_among(db, [community_id]):
        raise CommunityNotFound
    return await store.versions_of(db, community_id, before=before, limit=limit)


async def find_communities(
    db: Db, *, after: UUID | None, limit: int, retired: bool, fences: bool
) -> Sequence[tuple[Community, str | None]]:
    return await store.communities_page(db, after=after, limit=limit, retired=retired, fences=fences)


async def all_communities(db: Db) -> Sequence[tuple[Community, str]]:
    """As they were at one moment, with their fences; the retired as well."""
    return sorted(await store.changed_since(db, 0), key=lambda found: found[0].id)


async def _write(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, version: int
) -> Community | None:
    if community_id in rules.neighbour_ids:
        raise NeighbourIsItself
    await _refuse_strangers(db, rules.neighbour_ids)
    revision = await store.next_revision(db)
    return await store.insert_version(db, community_id, rules, fence, version=version, revision=revision)


async def _refuse_strangers(db: Db, neighbour_ids: Iterable[CommunityId]) -> None:
    unknown = set(neighbour_ids) - await store.known_among(db, neighbour_ids)
    if unknown:
        raise NeighbourUnknown(neighbour_ids=sorted(unknown))


async def _record(
    db: Db, community: Community, by: UUID | None, *, told: dict[str, object] | None = None
) -> None:
    first = "created" if community.version == 1 else "changed"
    await audit.record(
        db,
        actor_id=by,
        action=f"community.{'retired' if community.rules.retired else first}",
        subject_kind="community",
        subject_id=community.id,
        data={"version": community.version, **(told or {})},
    )


class Fences:
    """A process's copy of all fences, brought up to date whenever it is asked for: never behind.

    Not for a transaction that changes communities itself: what it then remembered might be undone.
    """

    def __init__(self) -> None:
        self._revision = 0
        self._index = FenceIndex({})
        self._loading = asyncio.Lock()

    async def current(self, db: Db) -> FenceIndex:
        """As of now; costs a short question, and what has changed since the last time."""
        revision = await store.current_revision(db)
        if revision <= self._revision:
            return self._index
        # One at a time, for all who wait: ten thousand take their time, which is not the event loop's.
        async with self._loading:
            if revision > self._revision:
                changed = await store.changed_since(db, self._revision)
                self._index = await asyncio.to_thread(self._index.with_changes, changed)
                self._revision = revision
            return self._index
