"""Every statement on communities. A change inserts a new version; versions are never deleted."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from catraca.domains.communities.model import Community, CommunityId, Prices, Rules
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Rule

COLUMNS = (
    "v.community_id, v.version, v.name, v.tariff, v.outside_tariff, v.fallback, v.neighbour_ids,"
    " v.confirmation_ttl_seconds, v.retired, v.changed_at"
)
COMMUNITIES = (
    "FROM communities c JOIN community_versions v ON v.community_id = c.id AND v.version = c.version"
)

FIRST = "INSERT INTO communities (id, version, revision) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
NEXT = "UPDATE communities SET version = $2, revision = $3 WHERE id = $1 AND version = $2 - 1"


async def next_revision(db: Db) -> int:
    """The number of this transaction's change. Other changes wait until the transaction ends."""
    return await db.fetchval("UPDATE communities_revision SET revision = revision + 1 RETURNING revision")


async def current_revision(db: Db) -> int:
    return await db.fetchval("SELECT revision FROM communities_revision")


async def changed_since(db: Db, revision: int) -> list[tuple[Community, str]]:
    """Communities changed after that revision, with their fences."""
    rows = await db.fetch(
        f"SELECT {COLUMNS}, v.fence {COMMUNITIES} WHERE c.revision > $1",
        revision,
    )
    return [(_community(row), row["fence"]) for row in rows]


async def insert_version(
    db: Db, community_id: CommunityId, rules: Rules, fence: str, *, version: int, revision: int
) -> Community | None:
    """The new version; None if the present version is not the one before it."""
    row = await db.fetchrow(
        f"WITH head AS ({FIRST if version == 1 else NEXT} RETURNING id)"  # noqa: S608 - constants only
        " INSERT INTO community_versions AS v (community_id, version, name, fence, tariff, outside_tariff,"
        "   fallback, neighbour_ids, confirmation_ttl_seconds, retired)"
        " SELECT id, $2, $4, $5::json, $6::jsonb, $7::jsonb, $8::text[], $9::uuid[], $10, $11 FROM head"
        f" RETURNING {COLUMNS}",
        community_id,
        version,
        revision,
        rules.name,
        fence,
        _json(rules.tariff),
        _json(rules.outside_tariff),
        list(rules.fallback),
        list(rules.neighbour_ids),
        rules.confirmation_ttl_seconds,
        rules.retired,
    )
    return None if row is None else _community(row)


async def read_community(db: Db, community_id: UUID) -> tuple[Community, str] | None:
    """The community with its fence, retired or not."""
    row = await db.fetchrow(
        f"SELECT {COLUMNS}, v.fence {COMMUNITIES} WHERE c.id = $1",
        community_id,
    )
    return None if row is None else (_community(row), row["fence"])


async def communities_among(
    db: Db, community_ids: Iterable[UUID]
) -> dict[CommunityId, tuple[Community, str]]:
    """The existing ones of these communities, with their fences."""
    rows = await db.fetch(
        f"SELECT {COLUMNS}, v.fence {COMMUNITIES} WHERE c.id = ANY ($1::uuid[])", list(community_ids)
    )
    return {row["community_id"]: (_community(row), row["fence"]) for row in rows}


async def read_version(db: Db, community_id: UUID, version: int) -> Community | None:
    row = await db.fetchrow(
        f"SELECT {COLUMNS} FROM community_versions v"  # noqa: S608 - constants only
        " WHERE v.community_id = $1 AND v.version = $2",
        community_id,
        version,
    )
    return None if row is None else _community(row)


async def read_version_fence(db: Db, community_id: UUID, version: int) -> str | None:
    return await db.fetchval(
        "SELECT fence FROM community_versions WHERE community_id = $1 AND version = $2", community_id, version
    )


async def versions_of(db: Db, community_id: UUID, *, before: int | None, limit: int) -> Sequence[Community]:
    """Newest first."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM community_versions v"  # noqa: S608 - constants only
        " WHERE v.community_id = $1 AND ($2::integer IS NULL OR v.version < $2)"
        " ORDER BY v.version DESC LIMIT $3",
        community_id,
        before,
        limit,
    )
    return [_community(row) for row in rows]


async def communities_page(
    db: Db, *, after: UUID | None, limit: int, retired: bool, fences: bool
) -> list[tuple[Community, str | None]]:
    """In the order of their ids, after `after`; with their fences if `fences` is set."""
    rows = await db.fetch(
        f"SELECT {COLUMNS}, CASE WHEN $4 THEN v.fence END AS fence {COMMUNITIES}"
        " WHERE ($1::uuid IS NULL OR c.id > $1) AND (NOT v.retired OR $3) ORDER BY c.id LIMIT $2",
        after,
        limit,
        retired,
        fences,
    )
    return [(_community(row), row["fence"]) for row in rows]


async def known_among(db: Db, community_ids: Iterable[UUID]) -> set[CommunityId]:
    rows = await db.fetch("SELECT id FROM communities WHERE id = ANY ($1::uuid[])", list(community_ids))
    return {row["id"] for row in rows}


def _json(prices: Prices | None) -> str | None:
    return None if prices is None else msgspec.json.encode(prices).decode()


def _prices(text: str | None) -> Prices | None:
    return None if text is None else msgspec.json.decode(text, type=Prices)


def _community(row: Row) -> Community:
    fallback: Any = tuple(row["fallback"])
    return Community(
        id=row["community_id"],
        version=row["version"],
        changed_at=row["changed_at"],
        rules=Rules(
            name=row["name"],
            tariff=_prices(row["tariff"]),
            outside_tariff=_prices(row["outside_tariff"]),
            fallback=fallback,
            neighbour_ids=tuple(row["neighbour_ids"]),
            confirmation_ttl_seconds=row["confirmation_ttl_seconds"],
            retired=row["retired"],
        ),
    )


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="prices of communities can be read",
        sentence="A constraint refuses prices without their four amounts, which would fail a list.",
        table="community_versions",
        constraint="community_prices_can_be_read",
        definition=("is_prices(tariff)", "is_prices(outside_tariff)"),
    ),
    ConstraintHeld(
        name="fences are polygons",
        sentence="A constraint refuses fences that are not polygons in GeoJSON.",
        table="community_versions",
        constraint="fences_are_polygons",
        definition=("Polygon", "coordinates"),
    ),
    ConstraintHeld(
        name="communities are their newest version",
        sentence="Every version of a community is stored, without a gap.",
        table="communities",
        constraint="communities_are_their_newest_version",
        definition=("(id, version)", "community_versions(community_id, version)"),
    ),
)
