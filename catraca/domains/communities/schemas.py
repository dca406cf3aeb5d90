"""HTTP and file schemas of communities."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID, uuid5

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.communities.model import (
    MAX_NEIGHBOURS,
    Community,
    CommunityId,
    Fallback,
    Prices,
    Rules,
)
from catraca.domains.communities.polygons import MAX_POINTS, MIN_RING_POINTS
from catraca.platform.forms import Body, Next, also_as, cleaned, each_once, split_page
from catraca.platform.lines import LINE_PATTERN, clean_line

NAMED_COMMUNITIES = UUID("2f6b54a5-2d0c-4f0e-9a53-7f2b0a6f9c1e")
NAME_MAX_CHARACTERS = 100
# The next version must fit into the database's integer.
MAX_VERSION = 2**31 - 2
FALLBACKS: list[list[Fallback]] = [[], ["open"], ["neighbours"], ["neighbours", "open"]]

_POSITION: JsonDict = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}
_RING: JsonDict = {"type": "array", "items": _POSITION, "minItems": MIN_RING_POINTS}
_RINGS: JsonDict = {"type": "array", "items": _RING, "minItems": 1}


def _geometry(kind: str, coordinates: JsonDict) -> JsonDict:
    properties: JsonDict = {"type": {"const": kind}, "coordinates": coordinates}
    return {"type": "object", "properties": properties, "required": ["type", "coordinates"]}


FENCE: JsonDict = {
    "title": "Fence",
    "oneOf": [
        _geometry("Polygon", _RINGS),
        _geometry("MultiPolygon", {"type": "array", "items": _RINGS, "minItems": 1}),
    ],
}
SQUARE: JsonDict = {
    "type": "Polygon",
    "coordinates": [
        [[-46.64, -23.56], [-46.62, -23.56], [-46.62, -23.54], [-46.64, -23.54], [-46.64, -23.56]]
    ],
}
PRICES: JsonDict = {"base_cents": 400, "per_km_cents": 150, "per_minute_cents": 25, "minimum_cents": 700}
SE: JsonDict = {
    "name": "Comunidade da Sé",
    "fence": SQUARE,
    "tariff": PRICES,
    "outside_tariff": None,
    "fallback": ["neighbours", "open"],
    "neighbour_ids": [],
    "confirmation_ttl_seconds": None,
}
SEEN: JsonDict = {
    "community_id": "0198a8b2-3c00-7000-8000-000000000003",
    "version": 1,
    **SE,
    "retired": False,
    "changed_at": "2025-08-14T12:00:00Z",
}


def _in_order(fallback: list[Fallback]) -> list[Fallback]:
    if fallback not in FALLBACKS:
        raise PydanticCustomError("fallback_order", "fallback_order")
    return fallback


Name = Annotated[
    str,
    Field(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=LINE_PATTERN),
    cleaned(lambda text: clean_line(text, max_characters=NAME_MAX_CHARACTERS)),
]
Cents = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]


class PlaceQuery(Body):
    lat: float = Field(ge=-90, le=90, allow_inf_nan=False)
    lng: Annotated[float, also_as("lng", "lon")] = Field(ge=-180, le=180, allow_inf_nan=False)


class Tariff(Body):
    """The price of a ride, in hundredths of the common currency."""

    model_config = ConfigDict(json_schema_extra={"examples": [PRICES]})

    base_cents: Cents
    per_km_cents: Cents
    per_minute_cents: Cents
    minimum_cents: Cents

    @classmethod
    def of(cls, prices: Prices | None) -> Self | None:
        if prices is None:
            return None
        return cls(
            base_cents=prices.base_cents,
            per_km_cents=prices.per_km_cents,
            per_minute_cents=prices.per_minute_cents,
            minimum_cents=prices.minimum_cents,
        )

    def to_prices(self) -> Prices:
        return Prices(**self.model_dump())


class CommunityFields(Body):
    """All of a community except its id. Omitted fields get their defaults, also in a change."""

    name: Name
    fence: Annotated[Any, WithJsonSchema(FENCE)] = Field(
        description=f"GeoJSON (RFC 7946), the longitude first, with at most {MAX_POINTS:,} points."
        " Holes are outside the community. Rings may turn either way."
    )
    tariff: Tariff | None = Field(default=None, description="Null: the server's tariff.")
    outside_tariff: Tariff | None = Field(
        default=None, description="For rides with drivers from elsewhere. Null: `tariff`."
    )
    fallback: Annotated[list[Fallback], AfterValidator(_in_order)] = Field(
        default=["open"],
        max_length=2,
        json_schema_extra={"uniqueItems": True},
        description="Drivers the passenger is asked to accept when the community has none available:"
        " `neighbours` first, then `open`. Empty: the ride waits for the community's own drivers.",
    )
    neighbour_ids: Annotated[list[UUID], AfterValidator(each_once)] = Field(
        default=[],
        max_length=MAX_NEIGHBOURS,
        json_schema_extra={"uniqueItems": True},
        description="Communities whose drivers are `neighbours`.",
    )
    confirmation_ttl_seconds: Annotated[int, Field(strict=True, ge=1, le=86_400)] | None = Field(
        default=None, description="Time for the passenger to confirm. Null: the server's setting."
    )

    def to_rules(self, *, retired: bool = False) -> Rules:
        return Rules(
            name=self.name,
            tariff=self.tariff and self.tariff.to_prices(),
            outside_tariff=self.outside_tariff and self.outside_tariff.to_prices(),
            fallback=tuple(self.fallback),
            neighbour_ids=tuple(CommunityId(one) for one in self.neighbour_ids),
            confirmation_ttl_seconds=self.confirmation_ttl_seconds,
            retired=retired,
        )


class CommunityIn(CommunityFields):
    model_config = ConfigDict(json_schema_extra={"examples": [SE]})

    id: UUID | None = Field(default=None, description="Default: a new id.")


class CommunityChangeIn(CommunityFields):
    model_config = ConfigDict(json_schema_extra={"examples": [{**SE, "version": 1}]})

    version: Version = Field(strict=True, description="The version you read.")


class CommunityFeatureIn(CommunityFields):
    """A GeoJSON feature: id, properties, and the geometry as the fence."""

    id: UUID | None = None
    retired: bool = False

    @property
    def community_id(self) -> CommunityId:
        """Derived from the name if the file has no id: a second import changes the same community."""
        return CommunityId(self.id or uuid5(NAMED_COMMUNITIES, self.name))


class CommunityOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [SEEN]})

    community_id: UUID
    version: int = Field(description="Increases with every change; all versions are stored.")
    name: str
    fence: Annotated[Any, WithJsonSchema({"oneOf": [FENCE, {"type": "null"}]})] = Field(
        description="GeoJSON; null in answers without fences."
    )
    tariff: Tariff | None
    outside_tariff: Tariff | None
    fallback: list[Fallback]
    neighbour_ids: list[UUID]
    confirmation_ttl_seconds: int | None
    retired: bool = Field(description="Out of use: no place is in it.")
    changed_at: datetime

    @classmethod
    def of(cls, community: Community, fence: str | None = None) -> Self:
        rules = community.rules
        return cls(
            community_id=community.id,
            version=community.version,
            name=rules.name,
            fence=None if fence is None else json.loads(fence),
            tariff=Tariff.of(rules.tariff),
            outside_tariff=Tariff.of(rules.outside_tariff),
            fallback=list(rules.fallback),
            neighbour_ids=list(rules.neighbour_ids),
            confirmation_ttl_seconds=rules.confirmation_ttl_seconds,
            retired=rules.retired,
            changed_at=community.changed_at,
        )


class CommunitiesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"communities": [{**SEEN, "fence": None}]}]})

    communities: list[CommunityOut]


class CommunityPage(CommunitiesOut):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"communities": [{**SEEN, "fence": None}], "next": None}]}
    )

    next: Next[UUID]

    @classmethod
    def of(cls, found: Sequence[tuple[Community, str | None]], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda one: one[0].id)
        return cls(communities=[CommunityOut.of(*one) for one in page], next=after)


class VersionPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"versions": [{**SEEN, "fence": None}], "next": None}]}
    )

    versions: list[CommunityOut]
    next: Next[int]

    @classmethod
    def of(cls, found: Sequence[Community], *, limit: int) -> Self:
        page, before = split_page(found, limit=limit, cursor=lambda one: one.version)
        return cls(versions=[CommunityOut.of(one) for one in page], next=before)
